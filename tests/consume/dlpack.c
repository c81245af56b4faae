/* A program outside the tree that views DLPack tensors: C11 and C++17, against any version of DLPack's header. */
#include <kiln/dlpack.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <string.h>

static int check(int good, const char *what, const kiln_report *report)
{
    if (!good)
        fprintf(stderr, "dlpack: %s: %s\n", what, report->message);
    return !good;
}

int main(void)
{
    float x[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, out[6] = { 0 };
    int64_t shape[2] = { 3, 2 }, turned[2] = { 1, 3 };
    int bad = 0;
    kiln_service *service = NULL;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_options options = KILN_INIT(kiln_options);
    kiln_tensor ins[1], outs[1];
    DLManagedTensor managed;
    memset(&managed, 0, sizeof(managed));
    DLTensor *tensor = &managed.dl_tensor;
    tensor->data = x;
    tensor->byte_offset = 2 * sizeof(float);
    tensor->device.device_type = kDLCPU;
    tensor->ndim = 2;
    tensor->dtype.code = kDLFloat;
    tensor->dtype.bits = 32;
    tensor->dtype.lanes = 1;
    tensor->shape = shape;
    tensor->strides = turned;
    options.device = "cpu";
    if (check(kiln_open(&service, &options, &report) == KILN_OK, "kiln_open", &report))
        return 1;
    bad |= check(kiln_view_dlpack_managed(&ins[0], service, &managed, &report) == KILN_OK, "an input", &report);
    tensor->data = out;
    tensor->byte_offset = 0;
    tensor->strides = NULL;
    bad |= check(kiln_view_dlpack(&outs[0], service, tensor, &report) == KILN_OK, "an output", &report);
    bad |= check(ins[0].data == x + 2 && ins[0].dtype == KILN_F32 && ins[0].ndim == 2, "a view", &report);
    bad |=
        check(kiln_apply(service, "op=x+x", outs, 1, ins, 1, NULL, 0, NULL, &report) == KILN_OK, "kiln_apply", &report);
    for (int i = 0; i < 6 && !bad; i++)
        bad |= check(out[i] == 2 * x[2 + i / 2 + i % 2 * 3], "a result", &report);
    tensor->dtype.code = 10; /* kDLFloat8_e4m3fn, which old headers lack */
    tensor->dtype.bits = 8;
    bad |= check(kiln_view_dlpack(&outs[0], service, tensor, &report) == KILN_OK && outs[0].dtype == KILN_F8E4M3,
                 "a code by value", &report);
    tensor->dtype.lanes = 4;
    bad |= check(kiln_view_dlpack(&outs[0], service, tensor, &report) == KILN_EINVAL, "lanes are refused", &report);
    bad |= check(kiln_view_dlpack(&outs[0], service, NULL, &report) == KILN_EINVAL, "NULL is refused", &report);
#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION >= 1
    DLManagedTensorVersioned versioned;
    memset(&versioned, 0, sizeof(versioned));
    versioned.version.major = 1;
    versioned.dl_tensor = *tensor;
    versioned.dl_tensor.dtype.lanes = 1;
    bad |= check(kiln_view_dlpack_versioned(&outs[0], service, &versioned, &report) == KILN_OK, "version 1", &report);
    versioned.version.major = 2;
    bad |=
        check(kiln_view_dlpack_versioned(&outs[0], service, &versioned, &report) == KILN_EINVAL, "version 2", &report);
#endif
    kiln_close(service);
    puts(bad ? "dlpack failed" : "dlpack views");
    return bad;
}
