/* Tensors: arrays with a type, a shape and strides. */
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <kiln/base.h>
#include <kiln/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type of the elements of a tensor. docs/spec.md names them in lower case. */
typedef enum kiln_dtype {
    KILN_DTYPE_NONE = 0, /* not set: KILN_EINVAL */
    KILN_F32,
    KILN_F64,
    KILN_F16,
    KILN_BF16,
    KILN_F8E4M3,
    KILN_F8E5M2,
    KILN_I8,
    KILN_I16,
    KILN_I32,
    KILN_I64,
    KILN_U8,
    KILN_BOOL /* a byte, 0 or 1 */
} kiln_dtype;

enum { KILN_TENSOR_DIMS_MAX = 32 };

/* A tensor. It owns nothing. Frozen layout. */
typedef struct kiln_tensor {
    void *data;          /* the element whose indices are all 0, in the device's memory */
    kiln_device *device; /* NULL: the default device of the service */
    kiln_dtype dtype;
    uint32_t ndim;        /* 0: one element; at most KILN_TENSOR_DIMS_MAX */
    const int64_t *shape; /* ndim extents; NULL where ndim is 0 */
    const int64_t
        *strides; /* ndim distances of neighbours, in elements; NULL: contiguous, the last dimension fastest */
} kiln_tensor;

#ifdef __cplusplus
}
#endif
#endif
