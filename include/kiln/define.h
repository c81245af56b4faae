/* Ops and templates of one's own: defined at run time, then used like Kiln's own in every spec of the service.
 *
 *     kiln_op_define(service, "swish_clip(x; hi=6) = x * min(max(x + 3, 0), hi) / 6", NULL);
 *     kiln_spec_parse(&spec, service, "op=swish_clip(hi=4) dtype=f16", NULL);
 *
 * What is defined stays until kiln_close. docs/ops.md has the language of definitions, docs/templates.md that of templates.
 * The rules of <kiln/kiln.h> hold here too. */
#ifndef KILN_DEFINE_H
#define KILN_DEFINE_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

/* Defines an op: "NAME(x, y; p=1) = EXPRESSION", with up to three inputs and eight parameters. GPU and cpu compute the same
 * bits. An equal definition again does nothing. Any thread. `definition` is borrowed for the call.
 * Errors: KILN_EOP (what is wrong and where; or the name is one of Kiln's own, or is defined otherwise, or there are 1024
 * ops), KILN_ENOMEM. */
KILN_API kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report);

/* How far results are from a reference. */
typedef struct kiln_deviation {
    size_t size;    /* sizeof(kiln_deviation): set by the caller */
    double bound;   /* as the definition has it, in units of the last place of the reference in the spec's dtype */
    double worst;   /* that was found */
    uint64_t where; /* index of that element */
} kiln_deviation;

/* Compares results with the reference that an op's definition has ("within 2 ulp of EXPRESSION"), calculated in double: n
 * elements of the spec's dtype, in host memory. NaN equals NaN. Any thread.
 * Errors: KILN_ENOENT (the spec's op is not one with a reference, called with its inputs in order), KILN_EMISMATCH (further
 * than the bound; *out is filled), KILN_EINVAL. */
KILN_API kiln_status kiln_reference_check(kiln_deviation *out, const kiln_spec *spec, uint64_t n, const void *results,
                                          const void *const *in, kiln_report *report);

/* ---- Templates ------------------------------------------------------------------------------------------------ */

/* Defines a template: the text of a .cu file with declarations in its header comment, and of its cpu twin, or NULL where it
 * has none. Specs name it as it names itself, template=NAME. Equal texts again do nothing. *name (may be NULL) gets the
 * name, borrowed until kiln_close. Such text is compiled in a worker, as options.isolate says; what comes of it runs with the
 * host's rights, so define only what you trust. Any thread. The texts are borrowed for the call.
 * Errors: KILN_ESPEC (line and what is wrong; or the name is one of Kiln's own, or is defined otherwise, or there are 256
 * templates), KILN_ENOMEM. */
KILN_API kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text,
                                          const char **name, kiln_report *report);

/* The same from the file `path`, which ends in .cu; a file beside it that ends in .c instead is its cpu twin.
 * Errors: as above, KILN_EINVAL (not such a path), KILN_ENOENT (no such file), KILN_EIO. */
KILN_API kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

/* ---- Kernels with arguments of their own ---------------------------------------------------------------------- */

/* An argument: an array on the kernel's device, or a number in host memory, which is read before the call returns. */
typedef struct kiln_arg {
    const void *data;
    uint64_t bytes; /* that are there: at least the array's; exactly the number's */
} kiln_arg;

/* Launches a kernel whose template declares arguments of its own. `sizes` has a value for each declared size, in order; args
 * one element for each argument but those that a formula gives. An array that is written overlaps no other. Queues and
 * returns as kiln_launch does, takes no lock and allocates nothing. A grid of no blocks is no launch. Any thread; sizes and
 * args are borrowed for the call, the arrays until the work is done.
 * Errors: KILN_EINVAL (counts, sizes, an array that is too short), KILN_EALIGN, KILN_EOVERLAP (nothing was queued),
 * KILN_ELAUNCH. */
KILN_API kiln_status kiln_launch_args(kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                      const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

typedef enum kiln_arg_role {
    KILN_ARG_IN = 1,
    KILN_ARG_OUT,
    KILN_ARG_INOUT,
    KILN_ARG_FORMULA, /* a number that a formula gives */
    KILN_ARG_SCALAR   /* a number given at launch */
} kiln_arg_role;

/* What a kernel takes, in the order of its parameters. Strings are borrowed from the kernel. */
typedef struct kiln_arg_info {
    size_t size; /* sizeof(kiln_arg_info): set by the caller */
    const char *name;
    kiln_arg_role role;
    const char *type;     /* "f32", "uint64", ... */
    uint32_t bytes;       /* of an element or a number */
    uint32_t dims;        /* of an array's shape */
    const char *shape[4]; /* formulas of the sizes, in C order */
} kiln_arg_info;

/* Fills *out. KILN_ENOENT: there are not so many. Any thread. */
KILN_API kiln_status kiln_kernel_arg(const kiln_kernel *kernel, uint32_t index, kiln_arg_info *out);

/* The name of a size, NULL after the last; borrowed from the kernel. Any thread. */
KILN_API const char *kiln_kernel_size(const kiln_kernel *kernel, uint32_t index);

/* The shape of an array argument with such sizes: its dims numbers. Errors: KILN_EINVAL, KILN_ENOENT. */
KILN_API kiln_status kiln_kernel_shape(const kiln_kernel *kernel, uint32_t index, const uint64_t *sizes,
                                       uint64_t shape[4], kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
