/* User-defined sources: their checked copies, options, headers and kernels, and the text of their keys. Pure: files are
 * not looked at. */
#ifndef KILN_SOURCE_SOURCE_H
#define KILN_SOURCE_SOURCE_H

#include "base/digest.h"
#include "base/list.h"
#include "spec/embedded.h"
#include "spec/option.h"
#include "spec/unit.h"
#include <kiln/source.h>

/* Checks and copies a source; places stay empty. Without a target the caller has to set one. Errors: KILN_EINVAL,
 * KILN_ETARGET ("cpu"), KILN_ENOMEM. */
kiln_status kiln__source_make(kiln__unit **out, const kiln_source *given, kiln_report *report);

/* Sets the target, and the text that names the unit in messages. KILN_ENOMEM. */
kiln_status kiln__source_set_target(kiln__unit *unit, const kiln__target *target);

/* Appends the text of everything that decides the compiled bytes, except contents of files and paths of directories.
 * `options` are those that every such source is compiled with. */
void kiln__source_key_text(kiln__text *out, const kiln__unit *unit, const char *options);

/* Fills unit->id from the whole unit, places included. KILN_ENOMEM. */
kiln_status kiln__source_identify(kiln__unit *unit);

/* The part of a file's name that a compiler knows: behind the last '/'. */
const char *kiln__source_base_name(const char *shown);

/* A compiler's log for the user: with the paths of directories in place of those of places, and the user's name of the
 * file. A copy for the unit of Kiln's template. The caller frees it with kiln__free. NULL: out of memory. */
char *kiln__source_show_log(const kiln__unit *unit, const char *log);

/* Whether a text may look for headers beside its file: an #include has no angle brackets, or it asks for one. */
bool kiln__source_includes_beside(const char *text);

/* Standard headers are the files of kernel_templates/std/. They stand for headers of the C and C++ libraries, which
 * NVRTC has not; docs/source.md says what they promise. A compiler without places gets them in memory, where they hide
 * files of their names. A compiler with places finds them as files in the place KILN__READS_STANDARD, behind the user's
 * directories and before CUDA's. A few are in memory in any case, because they come before the user's directories. */

/* Appends name, text, name, text, ... of all headers that a compiler is to have in memory: the source's, then standard
 * ones whose names the source has not taken. out->bytes.failed: out of memory. */
void kiln__standard_headers(const kiln__unit *source, kiln__list *out);

/* The text of a standard header that a compiler finds as a file, by its path in its place; NULL if there is none. */
const kiln__embedded_file *kiln__standard_file(const char *path);

/* How a source becomes a cubin. */
typedef enum kiln__linking {
    KILN__LINK_NONE,     /* NVRTC makes it */
    KILN__LINK_CODE,     /* nvJitLink links relocatable code of each file */
    KILN__LINK_OPTIMIZED /* nvJitLink makes it from intermediate code of all files */
} kiln__linking;

/* As its options say; KILN__LINK_NONE for a template's unit. */
kiln__linking kiln__source_linking(const kiln__unit *unit);

/* Appends nvJitLink's options for a source that is linked. Where the linker generates the code, it gets those of the
 * source's options that concern that. */
void kiln__source_linker_options(const kiln__unit *unit, kiln__list *out);

/* The prelude is compiled before a source's text, which thereby has the names that nvcc brings: INFINITY, uint32_t,
 * std::min. A text that declares such a name itself stays as it is. `foresee` appends the lines for names that the text
 * uses. That is a guess from its words: where the lines do not compile, the text is compiled without. `learn` appends
 * the lines for the names that a failed compile did not know, and is true if there are any. The lines follow from the
 * text, its files and Kiln's headers, all of which are in the key. */
void kiln__prelude_foresee(kiln__text *prelude, const char *text);
bool kiln__prelude_learn(kiln__text *prelude, const char *log);

/* Whether the text has what only a host compiles: main, a launch, a call of CUDA's runtime or driver. A text that
 * mentions __CUDACC_RTC__ is taken to keep it from NVRTC. */
bool kiln__source_has_host_code(const char *text);

/* Appends the __global__ functions of the texts and of the headers in memory, for messages: in their order, each once
 * and with a comma between, "scale<class T, int N>, ns::plain". Nothing is preprocessed: functions in an #if that is
 * not taken are among them, and those that macros make are not. A long list ends with "...". */
void kiln__source_list_kernels(kiln__text *out, const kiln__unit *unit);

#endif
