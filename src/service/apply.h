/* Ops applied to tensors: the kernel that fits texts, types and layouts, and its launch. */
#ifndef KILN_SERVICE_APPLY_H
#define KILN_SERVICE_APPLY_H

#include <kiln/tensor.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct kiln__applied kiln__applied;           /* an entry: what was asked for, and its kernel */
typedef struct kiln__applied_text kiln__applied_text; /* a text that was asked for, and its spec */

enum { KILN__APPLIED_BUCKETS = 512 };

/* The texts and the kernels that were applied. Entries are added and stay until the service closes, each with a
 * reference to its kernel. So a look-up takes no lock and no reference, and a graph keeps its kernels. Embedded in the
 * service. */
typedef struct kiln__apply_table {
    pthread_mutex_t lock; /* held while an entry is added */
    uint32_t count, most;
    _Atomic(kiln__applied *) buckets[KILN__APPLIED_BUCKETS];
    _Atomic(kiln__applied_text *) texts[KILN__APPLIED_BUCKETS]; /* as many at most */
    uint32_t text_count;
} kiln__apply_table;

void kiln__apply_table_init(kiln__apply_table *table);

/* Releases the kernels. No thread may apply any more. */
void kiln__apply_table_fini(kiln__apply_table *table);

/* The contract is kiln_apply's. */
kiln_status kiln__apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                        const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                        void *stream, kiln_report *report);

/* The device of all tensors, outputs first. Opens the default one where they name none and it is not open yet. Errors:
 * KILN_EINVAL (they lie on several), those of kiln_device_open. */
kiln_status kiln__apply_device(kiln_device **out, kiln_service *service, const kiln_tensor *outs, size_t out_count,
                               const kiln_tensor *ins, size_t in_count, kiln_report *report);

/* The contract is kiln_apply_request's. *device is that of the tensors. */
kiln_status kiln__apply_spec(kiln_spec **out, kiln_device **device, kiln_service *service, const char *text,
                             const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                             kiln_report *report);

#endif
