/* Tensors: arrays with a type, a shape and strides, and ops on them. docs/tensors.md has the rules of shapes and types.
 * <kiln/dlpack.h>, which this header does not include, views the tensors of other libraries. */
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <kiln/kernel.h>

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

/* Computes an op on tensors: finds the types, the layout and the kernel, gets this if need be, and launches it.
 *
 *   text     a spec without dtype, out, layout and n, which the tensors give: "op=gelu(x + bias)"
 *   outs     a tensor for each output of the op, all of one shape; with reduce= without dimensions, or as many as the
 *            inputs, of the extent 1; strides are not below 0
 *   ins      a tensor for each input, in the order of the op; they broadcast to that shape as in PyTorch
 *   scalars  a number for each `?name`, in their order
 *   stream   a CUstream or cudaStream_t of the device; NULL: the default stream; ignored on the cpu
 *
 * Each step has the type that PyTorch promotes its arguments to, where a tensor without dimensions counts as any other.
 * An input that the op takes as a column has the extent 1 along the axis, or the shape of another input without it.
 * `index` counts the elements as the shape has them; outputs of such an op are not permuted, and nothing is strided. An
 * output has the type that the op gives, or one that PyTorch casts this to in out=: real numbers do not become whole
 * ones, nor numbers bool. An output may be an input of the same data and strides, and overlaps no other tensor. A
 * result of a row may not be an input whose axis has one element, if the op has other results. The check compares
 * ranges of addresses, so it also refuses an output between the elements of another tensor. Tensors without elements
 * launch nothing.
 *
 * Text, types, device, the kind of layout and the power of two of elements choose the kernel. The first call with these
 * gets it, and blocks as kiln_get. Each later one costs about 0.2 us on a GPU, takes no lock and allocates nothing.
 * Where few long rows are reduced, the launch has scratch memory: see kiln_launch. Where an input of an op that reduces
 * has a part of the dimensions before the axis, or gaps there, the kernel is launched for each index of the outer ones:
 * 1,024 times at most, and the launches before one that fails stay. The kernel stays loaded until
 * kiln_close, so that a graph may have captured the launch. The first kiln_options.loaded_max kernels stay so, and
 * further ones are got for each call: a host that captures one of these holds it with kiln_get_kernel for the life of
 * the graph. Parameters that the text names must be those of the kernel's template. On the cpu all cores compute, and
 * the call blocks until they are done.
 *
 * "op=cross_entropy(x, t) reduce=mean" gives the mean of the results of all rows, and reduce=sum their sum. Two kernels
 * are launched: one for the rows, whose results lie in scratch memory, and one for the total. The order of its sum is
 * fixed. Where an op NAME has an op NAME_weight of some of its arguments, the mean is the sum over rows divided by that
 * of the weights: cross_entropy leaves out the rows to ignore, as PyTorch does. An op that reduces no axis takes one
 * kernel where all dimensions of its inputs can be reduced: that of "op=mean(...) axis=all". kiln_apply_parts gives the
 * texts of two. The first launch may have happened when the second fails; it writes no tensor of the caller's.
 *
 * Tensors are borrowed for the call, their data until the work is done.
 * Errors: those of kiln_get, KILN_EINVAL (shapes, types, strides, counts; tensors of several devices), KILN_EALIGN,
 * KILN_EOVERLAP, KILN_ELAUNCH, KILN_ECAPTURE (the stream is being captured and the kernel is not loaded; the capture
 * goes on). Nothing is launched then, but for what is said above. */
KILN_API kiln_status kiln_apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                                const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                                void *stream, kiln_report *report);

/* The type and the shape of an output. Frozen layout. */
typedef struct kiln_output {
    kiln_dtype dtype;
    uint32_t ndim;
    int64_t shape[KILN_TENSOR_DIMS_MAX];
} kiln_output;

/* Finds the outputs that an op gives for inputs: kiln_apply takes contiguous tensors of these types and shapes. Reads
 * the text, and neither compiles nor looks at the data of the tensors.
 *
 *   outs, room  written, *count of them
 *   text, ins   as for kiln_apply; the inputs may have any device
 *
 * Errors: those of kiln_spec_parse, KILN_EINVAL (shapes, types and counts, as for kiln_apply; room is below *count). */
KILN_API kiln_status kiln_apply_outputs(kiln_output *outs, size_t room, size_t *count, kiln_service *service,
                                        const char *text, const kiln_tensor *ins, size_t in_count, kiln_report *report);

/* Gives the texts of the two calls that one with reduce= stands for, so that a host can ask for the kernel of each, or
 * for its gradient. Compiles nothing.
 *
 *   first   takes the inputs of the text. It has its results and, where the mean is weighted, the weights behind them.
 *           Where the op reduces an axis, they have the extent 1 there.
 *   second  takes the results of the first call and gives the total; NULL where the text has no reduce=
 *
 * kiln_apply has the results in between in KILN_I64 where the total is a whole number, in KILN_F64 where it is one, and
 * else in KILN_F32. The caller frees both with kiln_text_free; they are NULL on failure.
 * Errors: those of kiln_spec_parse, KILN_ESPEC (no op). */
KILN_API kiln_status kiln_apply_parts(char **first, char **second, kiln_service *service, const char *text,
                                      kiln_report *report);

/* Defines the gradient of an op as another op, and gives the text that calls it, for kiln_apply.
 *
 *   text, ins  as for kiln_apply_outputs
 *   wanted     the inputs whose gradients it gives, as bits, the first input the lowest
 *
 * The other op takes the gradients of the outputs, then the inputs, and the scalars in the order of the op. For each
 * wanted input in order it gives the sum over the outputs of their gradient times their derivative. Where the op
 * reduces an axis, all tensors have it: those of one value with the extent 1. A result may have the extent 1 where its
 * input does not: it has that value everywhere. Else it has the shape to which the inputs broadcast, and is to be
 * summed over the dimensions in which its input has the extent 1 or lacks them. Reads and defines text, and compiles
 * nothing.
 *
 * An op NAME with an op NAME_backward is derived by that, others by their definition. Equal values of min and max, and
 * the greatest and least elements of an axis, share the gradient, as in PyTorch's amax. Comparisons, rounding functions
 * and indices have the derivative 0. The caller frees *call with kiln_text_free.
 * Errors: those of kiln_apply_outputs; KILN_EINVAL (reduce=; wanted; more than eight arrays), KILN_EOP (a function
 * without a derivative, prod, cumprod, cummax and cummin; a derivative that is too large). *call is NULL then. */
KILN_API kiln_status kiln_apply_gradient(char **call, kiln_service *service, const char *text, const kiln_tensor *ins,
                                         size_t in_count, uint64_t wanted, kiln_report *report);

/* Gives the request whose program kiln_apply launches for such tensors, for kiln_get, kiln_submit or kiln_kept.
 * Compiles nothing. The data of the tensors may be NULL. *request borrows *spec, which the caller frees with
 * kiln_spec_free.
 * Errors: those of kiln_spec_parse and kiln_device_open, KILN_EINVAL (as for kiln_apply; reduce=), KILN_EOVERLAP (an
 * output overlaps itself). */
KILN_API KILN_MUST_USE kiln_status kiln_apply_request(kiln_spec **spec, kiln_request *request, kiln_service *service,
                                                      const char *text, const kiln_tensor *outs, size_t out_count,
                                                      const kiln_tensor *ins, size_t in_count, kiln_report *report);

/* The facts of a DLPack tensor, by value, so that a host needs no header of DLPack; <kiln/dlpack.h> takes them from
 * one. Names and codes are DLPack's. */
typedef struct kiln_dlpack {
    size_t size;
    void *data;
    uint64_t byte_offset;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    uint32_t major; /* of the version; 0: a tensor without one; UINT32_MAX: one of version 0 */
    const int64_t *shape, *strides;
} kiln_dlpack;

/* Views a DLPack tensor without a copy. *out borrows data, shape and strides, and its device is that of the service:
 * memory of CUDA is cuda:N, host memory "cpu". Blocks as kiln_device_open, the first time.
 * Errors: KILN_EINVAL (a type, device or version that Kiln does not know), those of kiln_device_open. */
KILN_API kiln_status kiln_tensor_of_dlpack(kiln_tensor *out, kiln_service *service, const kiln_dlpack *dlpack,
                                           kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
