/* kiln doctor: says what Kiln can use here, and tries it. */
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "plot/gnuplot.h"
#include "text/jsonout.h"

struct diagnosis {
    const common_args *common;
    json_t *list;
    bool colour;
    bool nvrtc, gpu, compiler;
};

static const struct usage usage = {
    "kiln doctor [options]",
    "Looks for the CUDA driver, NVRTC, the linker, the C compiler, GPUs, the cache, and the packs and the shared\n"
    "directory that are named, and says how to get the missing ones. Measures the memory speed of each GPU and of the\n"
    "cpu.\n"
    "Status 0 if kernels can be made and run here, on a GPU or on the cpu.",
    NULL,
};

static json_t *finding_json(const kiln_finding *finding)
{
    return json_new("what", json_text(finding->what), "ok", json_boolean(finding->ok), "name", json_text(finding->name),
                    "path", json_text(finding->path), "version", json_text(finding->version), "detail",
                    json_text(finding->detail), "remedy", json_text(finding->remedy), NULL);
}

static void print_finding(const struct diagnosis *diagnosis, const kiln_finding *finding)
{
    const char *on = !diagnosis->colour ? "" : finding->ok ? "\033[32m" : "\033[31m";
    const char *state = finding->ok ? "ok" : *finding->path ? "problem" : "missing";
    printf("%s%-7s%s  %-14s %s", on, state, diagnosis->colour ? "\033[0m" : "", finding->what, finding->name);
    if (*finding->version)
        printf(" %s", finding->version);
    putchar('\n');
    if (*finding->path)
        printf("         %-14s %s\n", "", finding->path);
    if (*finding->detail)
        printf("         %-14s %s\n", "", finding->detail);
    if (*finding->remedy)
        printf("         %-14s to do: %s\n", "", finding->remedy);
}

static int visit_finding(void *data, const kiln_finding *finding)
{
    struct diagnosis *diagnosis = data;
    diagnosis->nvrtc |= finding->ok && strcmp(finding->what, "NVRTC") == 0;
    diagnosis->gpu |= finding->ok && strcmp(finding->what, "GPU") == 0;
    diagnosis->compiler |= finding->ok && strcmp(finding->what, "C compiler") == 0;
    if (diagnosis->common->json)
        json_add(diagnosis->list, finding_json(finding));
    else
        print_finding(diagnosis, finding);
    return 0;
}

/* Whether a kernel can be made and computes: a thing that is found may still not work. */
static bool computes(struct session *session, const char *device_name)
{
    kiln_device *device = NULL;
    kiln_device_info info;
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    float x[3] = { 1, -3, 4 };
    void *memory = NULL;
    bool good = false;
    if (session_device(&device, &info, session, device_name) != KILN_OK)
        return false;
    if (kiln_spec_parse(&spec, session->service, need_format("op=relu6 dtype=f32 target=%s", info.target), NULL) ==
            KILN_OK &&
        kiln_get_kernel(&kernel, session->service, spec, NULL) == KILN_OK &&
        kiln_alloc(&memory, device, sizeof(x), NULL) == KILN_OK &&
        kiln_upload(device, memory, x, sizeof(x), NULL) == KILN_OK) {
        const void *in[] = { memory };
        good = kiln_launch_n(kernel, 3, &memory, 1, in, 1, NULL, NULL) == KILN_OK &&
               kiln_sync(device, NULL) == KILN_OK && kiln_download(device, x, memory, sizeof(x), NULL) == KILN_OK &&
               x[0] == 1 && x[1] == 0 && x[2] == 4;
    }
    kiln_free(device, memory);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return good;
}

/* The same in a session without a cache, so that nothing is kept. */
static bool works_on(const char *device_name)
{
    const common_args apart = { .cache_dir = "", .strict = KILN_OFF };
    struct session session;
    bool good = session_open(&session, &apart) == STATUS_DONE && computes(&session, device_name);
    session_close(&session);
    return good;
}

static int examine(struct session *session, void *data)
{
    struct diagnosis *diagnosis = data;
    kiln_status status = kiln_doctor(session->service, visit_finding, diagnosis);
    if (status)
        return session_status(session, status, NULL);
    bool gpu = diagnosis->gpu && diagnosis->nvrtc && works_on("cuda:0");
    bool cpu = diagnosis->compiler && works_on("cpu");
    char *complaint = NULL;
    gnuplot_find(&complaint, gnuplot_format_of("-"));
    if (diagnosis->common->json)
        json_print(json_new("gpu", json_boolean(gpu), "cpu", json_boolean(cpu), "warm", json_boolean(diagnosis->nvrtc),
                            "pictures", json_boolean(!complaint), "findings", diagnosis->list, NULL));
    else
        printf("\nkernels run on a GPU: %s\nkernels run on the cpu: %s\nkernels can be compiled for GPUs: %s\n"
               "pictures can be drawn: %s%s\n",
               gpu ? "yes" : "no", cpu ? "yes" : "no", diagnosis->nvrtc ? "yes" : "no", complaint ? "no, " : "yes",
               complaint ? complaint : "");
    if (gpu || cpu)
        return STATUS_DONE;
    return fail(STATUS_FAILED, "no kernel can be made and run here; see what is missing above");
}

int command_doctor(int argc, char **argv)
{
    common_args common = { .only_reads = true };
    options_only(&usage, NULL, 0, &common, NULL, argc, argv);
    struct diagnosis diagnosis = { .common = &common, .list = json_array(), .colour = use_colour(stdout) };
    return session_run(&common, examine, &diagnosis);
}
