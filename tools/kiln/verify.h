/* Checking results bit for bit against the cpu backend. */
#ifndef KILN_TOOLS_VERIFY_H
#define KILN_TOOLS_VERIFY_H

#include "common.h"
#include "dtype.h"

struct verifier {
    kiln_kernel *kernel; /* the reference */
    const dtype *type;
    uint64_t elements;   /* compared and found equal so far */
    bool differs;        /* a difference was found */
    bool elementwise;    /* the results of a part of the arrays are known from that part alone */
    void *want;          /* what the reference made of the last part */
    const char *against; /* what the reference is, for messages */
};

/* Gets the reference for a plain kernel (signature.h): the same op and dtype on the cpu, with a geometry of its own. For a
 * kernel of the cpu itself that is another kernel with the smallest chunks. Returns STATUS_DONE or the exit status after a
 * message. verify_close is right after either. */
int verify_open(struct verifier *out, struct session *session, const kiln_kernel_info *info);

/* Compares n results with what the reference makes of the same inputs, all in host memory. Any NaN equals any NaN. Unless
 * the kernel is elementwise these are all its results. `first` is the index of the first element, for messages. Returns
 * STATUS_DONE, or STATUS_FAILED after a message. */
int verify_elements(struct verifier *verifier, struct session *session, uint64_t first, uint64_t n, const void *got,
                    const void *const *in);
void verify_close(struct verifier *verifier);

#endif
