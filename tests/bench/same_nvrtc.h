/* Bare NVRTC as Kiln would use it: the same library, the same options. */
#ifndef KILN_TESTS_BENCH_SAME_NVRTC_H
#define KILN_TESTS_BENCH_SAME_NVRTC_H

#include "bench/bare_nvrtc.h"
#include "gpu/cuda.h"

/* Opens it for a target ("sm_90") and prints which one it is. *option_text is for the caller to free after the last
 * use. */
static inline void same_open(bare_nvrtc *out, const char *target_name, char **option_text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__unit unit = { .contracts = true }; /* as those of element-wise ops */
    kiln__text options = { 0 };
    kiln__compiler *compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bare_check(compiler != NULL && kiln__target_parse(target_name, strlen(target_name), &unit.target), "NVRTC",
               "out of memory");
    bare_check(compiler->vtable->identify(compiler, &toolchain, &report) == KILN_OK, "NVRTC", report.message);
    compiler->vtable->options(compiler, &unit, &options);
    *option_text = kiln__text_take(&options);
    bare_check(*option_text != NULL, "options", "out of memory");
    printf("%s, %s\n", toolchain.path, toolchain.version);
    bare_open(out, toolchain.path, *option_text);
    compiler->vtable->close(compiler);
}

#endif
