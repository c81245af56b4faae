// An outside C++ program: Kiln's objects held by smart pointers, launched on the cpu, every value checked.
#include <cstdio>
#include <kiln/kiln.h>
#include <memory>
#include <vector>

struct Deleter {
    void operator()(kiln_service *service) const
    {
        kiln_close(service);
    }
    void operator()(kiln_spec *spec) const
    {
        kiln_spec_free(spec);
    }
    void operator()(kiln_kernel *kernel) const
    {
        kiln_kernel_release(kernel);
    }
};

static int fail(kiln_status status, const kiln_report &report)
{
    std::fprintf(stderr, "%s: %s\n", kiln_status_name(status), report.message);
    return 1;
}

int main()
{
    kiln_options options = KILN_INIT(kiln_options);
    options.device = "cpu";
    kiln_report report = KILN_INIT(kiln_report);

    kiln_service *opened = nullptr;
    kiln_status status = kiln_open(&opened, &options, &report);
    std::unique_ptr<kiln_service, Deleter> service(opened);
    if (status != KILN_OK)
        return fail(status, report);

    kiln_spec *parsed = nullptr;
    status = kiln_spec_parse(&parsed, service.get(), "op=add(x,y) dtype=f64 target=cpu", &report);
    std::unique_ptr<kiln_spec, Deleter> spec(parsed);
    if (status != KILN_OK)
        return fail(status, report);

    kiln_kernel *got = nullptr;
    status = kiln_get_kernel(&got, service.get(), spec.get(), &report);
    std::unique_ptr<kiln_kernel, Deleter> kernel(got);
    if (status != KILN_OK)
        return fail(status, report);

    std::vector<double> x(1000, 1.5), y(1000, 2.25), z(1000, 0.0);
    const void *inputs[] = { x.data(), y.data() };
    void *out = z.data();
    status = kiln_launch_n(kernel.get(), z.size(), &out, 1, inputs, 2, nullptr, &report);
    if (status != KILN_OK)
        return fail(status, report);
    for (double value : z) {
        if (value != 3.75) {
            std::fprintf(stderr, "got %g, want 3.75\n", value);
            return 1;
        }
    }
    // All of it in one call, by the text.
    for (int i = 0; i < 3; i++) {
        const char *text = "op=add(x,y) dtype=f64 target=cpu";
        status = kiln_call(service.get(), text, z.size(), &out, 1, inputs, 2, nullptr, &report);
        inputs[0] = z.data();
        if (status != KILN_OK)
            return fail(status, report);
    }
    if (z[0] != 1.5 + 3 * 2.25 || z.back() != z[0])
        return fail(KILN_EINVAL, report);
    kiln_report_clear(&report);
    std::printf("kiln %s from C++: %zu values are right\n", kiln_version(), z.size());
    return 0;
}
