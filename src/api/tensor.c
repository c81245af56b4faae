/* The public functions of <kiln/tensor.h>. */
#include "api/structs.h"
#include "service/infer.h"
#include "service/service.h"
#include <stdio.h>

kiln_status kiln_apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                       const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                       void *stream, kiln_report *report)
{
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, service,
                service != NULL && text != NULL && outs != NULL && (ins != NULL || in_count == 0) &&
                    (scalars != NULL || scalar_count == 0),
                "service, text, outs, ins and scalars must not be NULL");
    return kiln__apply(service, text, outs, out_count, ins, in_count, scalars, scalar_count, stream, report);
}

kiln_status kiln_apply_request(kiln_spec **spec, kiln_request *request, kiln_service *service, const char *text,
                               const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(spec, report, KILN__STAGE_SPEC, service,
                    request != NULL && service != NULL && text != NULL && outs != NULL &&
                        (ins != NULL || in_count == 0),
                    "request, service, text, outs and ins must not be NULL");
    kiln_request full = KILN_INIT(kiln_request);
    kiln_status status = kiln__apply_spec(spec, &full.device, service, text, outs, out_count, ins, in_count, report);
    full.spec = *spec;
    if (status == KILN_OK && kiln__hand_out(request, &full, sizeof(full)) != KILN_OK) {
        kiln__spec_release(*spec);
        *spec = NULL;
        status = kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0, "kiln_request has no size: use KILN_INIT");
    }
    return status;
}

kiln_status kiln_apply_outputs(kiln_output *outs, size_t room, size_t *count, kiln_service *service, const char *text,
                               const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service,
                count != NULL && service != NULL && text != NULL && (outs != NULL || room == 0) &&
                    (ins != NULL || in_count == 0),
                "count, service, text, outs and ins must not be NULL");
    return kiln__infer_outputs(outs, room, count, service, text, ins, in_count, report);
}

kiln_status kiln_apply_parts(char **first, char **second, kiln_service *service, const char *text, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (second != NULL)
        *second = NULL;
    KILN__BEGIN_OUT(first, report, KILN__STAGE_SPEC, service, second != NULL && service != NULL && text != NULL,
                    "second, service and text must not be NULL");
    return kiln__infer_parts(first, second, service, text, report);
}

kiln_status kiln_apply_gradient(char **call, kiln_service *service, const char *text, const kiln_tensor *ins,
                                size_t in_count, uint64_t wanted, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(call, report, KILN__STAGE_SPEC, service,
                    service != NULL && text != NULL && (ins != NULL || in_count == 0),
                    "service, text and ins must not be NULL");
    return kiln__infer_gradient(call, service, text, ins, in_count, wanted, report);
}

/* ---- DLPack. Its codes stand here by value, so that the library needs none of its headers. */

/* KILN_DTYPE_NONE for a type that Kiln does not have. A bool of old versions is an unsigned byte. */
static kiln_dtype dtype_of(const kiln_dlpack *dlpack)
{
    static const struct {
        uint8_t code, bits;
        kiln_dtype dtype;
    } types[] = {
        { 0, 8, KILN_I8 },    { 0, 16, KILN_I16 }, { 0, 32, KILN_I32 },    { 0, 64, KILN_I64 },
        { 1, 8, KILN_U8 },    { 2, 16, KILN_F16 }, { 2, 32, KILN_F32 },    { 2, 64, KILN_F64 },
        { 4, 16, KILN_BF16 }, { 6, 8, KILN_BOOL }, { 10, 8, KILN_F8E4M3 }, { 12, 8, KILN_F8E5M2 },
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && dlpack->lanes == 1; i++)
        if (types[i].code == dlpack->code && types[i].bits == dlpack->bits)
            return types[i].dtype;
    return KILN_DTYPE_NONE;
}

/* The name of a device, "" for one that Kiln does not have. Pinned memory is the host's. */
static void name_device(char out[24], const kiln_dlpack *dlpack)
{
    enum { CPU = 1, CUDA = 2, CUDA_HOST = 3, CUDA_MANAGED = 13 };
    out[0] = '\0';
    if (dlpack->device_type == CPU || dlpack->device_type == CUDA_HOST)
        snprintf(out, 24, "cpu");
    if ((dlpack->device_type == CUDA || dlpack->device_type == CUDA_MANAGED) && dlpack->device_id >= 0)
        snprintf(out, 24, "cuda:%d", dlpack->device_id);
}

kiln_status kiln_tensor_of_dlpack(kiln_tensor *out, kiln_service *service, const kiln_dlpack *dlpack,
                                  kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, service, out != NULL && service != NULL && dlpack != NULL,
                "out, service and dlpack must not be NULL");
    kiln_dlpack full = KILN_INIT(kiln_dlpack);
    char name[24];
    kiln_device *device;
    *out = (kiln_tensor){ 0 };
    kiln_status status = kiln__take_in(&full, sizeof(full), dlpack, "kiln_dlpack", KILN__STAGE_LAUNCH, report);
    if (status != KILN_OK)
        return status;
    name_device(name, &full);
    if (full.major > 1)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                          "a DLPack tensor of version %u: this library knows version 1",
                          full.major == UINT32_MAX ? 0 : full.major);
    if (dtype_of(&full) == KILN_DTYPE_NONE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                          "a DLPack tensor of code %d, %d bits, %d lanes: none of kiln_dtype", full.code, full.bits,
                          full.lanes);
    if (name[0] == '\0' || full.ndim < 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                          "a DLPack tensor of %d dimensions on device %d of type %d: expected the cpu or CUDA",
                          full.ndim, full.device_id, full.device_type);
    status = kiln__runtime_device(service->runtime, name, &device, report);
    if (status != KILN_OK)
        return status;
    *out = (kiln_tensor){ .data = full.data != NULL ? (char *)full.data + full.byte_offset : NULL,
                          .device = device,
                          .dtype = dtype_of(&full),
                          .ndim = (uint32_t)full.ndim,
                          .shape = full.shape,
                          .strides = full.strides };
    return KILN_OK;
}
