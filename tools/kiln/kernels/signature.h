/* What a kernel takes, as far as the command treats kernels differently. */
#ifndef KILN_TOOLS_SIGNATURE_H
#define KILN_TOOLS_SIGNATURE_H

#include <kiln/kernel.h>
#include <kiln/tune.h>
#include <stdbool.h>
#include <string.h>

#include "cli/common.h"

enum { SIGNATURE_MOST_INPUTS = 3 };

typedef struct kernel_takes {
    bool flat;     /* one size, which is the extent of every array, and no number given at launch */
    bool one_type; /* all arrays have elements of `type` */
    uint32_t in, out, inout;
    const char *type; /* of the first array's elements; "": there is no array */
} kernel_takes;

/* `size` is the name of the only size, or NULL. */
static inline void kernel_takes_add(kernel_takes *out, const kiln_param *param, const char *size)
{
    if (param->role == KILN_ROLE_FORMULA)
        return;
    out->in += param->role == KILN_ROLE_IN;
    out->out += param->role == KILN_ROLE_OUT;
    out->inout += param->role == KILN_ROLE_INOUT;
    if (param->dims == 0) { /* a number */
        out->flat = false;
        return;
    }
    out->flat = out->flat && size && param->dims == 1 && strcmp(param->shape[0], size) == 0;
    out->one_type = out->one_type && (!*out->type || strcmp(out->type, param->type) == 0);
    if (!*out->type)
        out->type = param->type;
}

static inline kernel_takes signature_takes(const kiln_signature *signature)
{
    kernel_takes takes = { .flat = signature->size_count == 1, .one_type = true, .type = "" };
    for (size_t i = 0; i < signature->param_count; i++)
        kernel_takes_add(&takes, signature->params[i], takes.flat ? signature->sizes[0] : NULL);
    return takes;
}

/* What a spec's template declares. Lives as long as the spec. */
static inline const kiln_signature *spec_signature(const kiln_spec *spec)
{
    const kiln_signature *signature = NULL;
    if (kiln_spec_signature(&signature, spec, NULL) != KILN_OK)
        out_of_memory();
    return signature;
}

/* Whether kiln_launch_n does for it with arrays of one type: one output, and up to three inputs. */
static inline bool takes_plain(const kernel_takes *takes)
{
    return takes->flat && takes->one_type && takes->out == 1 && takes->inout == 0 && takes->in > 0 &&
           takes->in <= SIGNATURE_MOST_INPUTS;
}

/* The same, with elements of that type. */
static inline bool takes_plain_of(const kernel_takes *takes, const char *type)
{
    return takes_plain(takes) && strcmp(takes->type, type) == 0;
}

/* How many arrays a kernel only reads. */
static inline uint32_t signature_inputs(const kiln_signature *signature)
{
    return signature_takes(signature).in;
}

#endif
