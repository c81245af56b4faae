/* DLPack tensors as kiln_tensor, without a copy. For hosts that have DLPack's header; <kiln/kiln.h> does not include
 * this one. Any version of that header will do: 0.6 has no DLManagedTensorVersioned, and the codes of types that it
 * lacks are known by value.
 *
 * A view borrows the tensor. The host calls the deleter, once the work that uses the data is done. A tensor that is
 * flagged as read-only must not be an output. */
#ifndef KILN_DLPACK_H
#define KILN_DLPACK_H

#include <dlpack/dlpack.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Not for hosts: the facts of a tensor. */
static inline kiln_dlpack kiln_dlpack_facts(const DLTensor *tensor, uint32_t major)
{
    kiln_dlpack facts = KILN_INIT(kiln_dlpack);
    facts.data = tensor->data;
    facts.byte_offset = tensor->byte_offset;
    facts.device_type = (int32_t)tensor->device.device_type;
    facts.device_id = (int32_t)tensor->device.device_id;
    facts.ndim = (int32_t)tensor->ndim;
    facts.code = tensor->dtype.code;
    facts.bits = tensor->dtype.bits;
    facts.lanes = tensor->dtype.lanes;
    facts.major = major;
    facts.shape = tensor->shape;
    facts.strides = tensor->strides;
    return facts;
}

/* View a tensor. Errors: those of kiln_tensor_of_dlpack, KILN_EINVAL (a NULL). */
static inline kiln_status kiln_view_dlpack(kiln_tensor *out, kiln_service *service, const DLTensor *tensor,
                                           kiln_report *report)
{
    kiln_dlpack facts = KILN_INIT(kiln_dlpack);
    if (tensor != NULL)
        facts = kiln_dlpack_facts(tensor, 0);
    return kiln_tensor_of_dlpack(out, service, tensor != NULL ? &facts : NULL, report);
}

static inline kiln_status kiln_view_dlpack_managed(kiln_tensor *out, kiln_service *service,
                                                   const DLManagedTensor *managed, kiln_report *report)
{
    return kiln_view_dlpack(out, service, managed != NULL ? &managed->dl_tensor : NULL, report);
}

#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION >= 1
static inline kiln_status kiln_view_dlpack_versioned(kiln_tensor *out, kiln_service *service,
                                                     const DLManagedTensorVersioned *managed, kiln_report *report)
{
    kiln_dlpack facts = KILN_INIT(kiln_dlpack);
    /* Behind another major version the fields may lie elsewhere, so that they are not read. */
    if (managed != NULL && managed->version.major == 1)
        facts = kiln_dlpack_facts(&managed->dl_tensor, 1);
    else if (managed != NULL)
        facts.major = managed->version.major > 1 ? managed->version.major : UINT32_MAX;
    return kiln_tensor_of_dlpack(out, service, managed != NULL ? &facts : NULL, report);
}
#endif

#ifdef __cplusplus
}
#endif
#endif
