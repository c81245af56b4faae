/* The options of a CUDA compiler that users' sources and templates may name. Pure. */
#ifndef KILN_SPEC_OPTION_H
#define KILN_SPEC_OPTION_H

#include "base/report.h"
#include "spec/unit.h"
#include <stdbool.h>

/* Takes an option, whose value may be the text `next` (NULL: there is none). Appends what NVRTC is given of it to
 * unit->options, in one spelling, and what the user should know of it to unit->notes. An option that is passed on has
 * the same effect in every process, reads and writes no file, and leaves a cubin. KILN_EINVAL for others: the report
 * says why and what to use instead. KILN_ETARGET. The caller asks unit->options whether memory ran out. */
kiln_status kiln__option_take(kiln__unit *unit, const char *option, const char *next, kiln_report *report);

/* kiln_source_option_words. */
unsigned kiln__option_words(const char *option);

/* Of an option that was taken: */

/* Whether it is passed on as `name`, "-rdc"; *value gets the text behind its "=", "" if it has none. */
bool kiln__option_is(const char *option, const char *name, const char **value);

/* Whether another, "--std=c++17" and "-std=c++20", sets the same thing. */
bool kiln__option_same(const char *one, const char *other);

/* Whether it puts the working directory into the compiled bytes. */
bool kiln__option_tells_directory(const char *option);

/* Whether it says how functions without annotation are compiled, which NVRTC gets in another form: *on gets whether
 * they are device functions. */
bool kiln__option_sets_device(const char *option, bool *on);

#endif
