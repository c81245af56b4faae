/* nvJitLink, found and opened at run time, and one link by it: relocatable code, or intermediate code for link-time
 * optimization, becomes a cubin. */
#ifndef KILN_GPU_NVJITLINK_H
#define KILN_GPU_NVJITLINK_H

#include "base/list.h"
#include "gpu/nvjitlink_symbols.h"
#include <kiln/base.h>

/* Constant after kiln__nvjitlink_load; any thread may use it. */
typedef struct kiln__nvjitlink {
#define KILN__MEMBER(name, result, parameters) result(*name) parameters;
    KILN__NVJITLINK_SYMBOLS(KILN__MEMBER)
#undef KILN__MEMBER
    unsigned major, minor;
    void *runtime; /* libcudadevrt.a, NULL if it was not found */
    size_t runtime_length;
} kiln__nvjitlink;

/* Appends the path of the nvJitLink that goes with the NVRTC at `nvrtc`, whose version begins `version`, and the path
 * of libcudadevrt.a if there is one (kiln__nvrtc_find_companion). Opens neither. KILN_ENOCOMPILER says where it was
 * looked for; KILN_ENOMEM. */
kiln_status kiln__nvjitlink_find(const char *nvrtc, const char *version, kiln__list *files, kiln_report *report);

/* Opens the linker and reads the device runtime, the files of such a list. The caller frees *out with
 * kiln__nvjitlink_free; the library stays mapped. KILN_ENOCOMPILER: it is not usable, or older than the NVRTC of
 * `version`, whose code it then need not know; KILN_EIO where descriptors are short; KILN_ENOMEM. */
kiln_status kiln__nvjitlink_load(kiln__nvjitlink **out, const kiln__list *files, const char *version,
                                 kiln_report *report);
void kiln__nvjitlink_free(kiln__nvjitlink *linker); /* NULL is allowed */

/* The code of one file. */
typedef struct kiln__link_input {
    void *data;
    size_t length;
    const char *name; /* in messages of the linker */
} kiln__link_input;

/* Links inputs, intermediate code if `optimize` and else cubins, with these options of nvJitLink. The device runtime is
 * added where the inputs need it. The caller frees *cubin with kiln__free. KILN_ECOMPILE has the linker's message, and
 * its log is the report's; KILN_ENOMEM. */
kiln_status kiln__nvjitlink_link(const kiln__nvjitlink *linker, const kiln__list *options, bool optimize,
                                 const kiln__link_input *inputs, size_t count, void **cubin, size_t *length,
                                 kiln_report *report);

#endif
