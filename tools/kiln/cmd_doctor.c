#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "plot/gnuplot.h"
#include "text/jsonout.h"

struct diagnosis {
    json_t *list; /* or NULL: print */
    bool colour;
    bool nvrtc, gpu, compiler;
};

static const struct usage usage = {
    "kiln doctor [options]",
    "Says what was found of the CUDA driver, NVRTC, the C compiler, GPUs, the cache, and the packs and the\n"
    "shared directory that are named, and what to do about what is missing. Measures the memory speed of each\n"
    "GPU and of the cpu. Status 0 if kernels can be made and run here, on a GPU or on the cpu.",
    NULL,
};

static json_t *finding_json(const kiln_finding *finding)
{
    json_t *object = json_new();
    json_put_text(object, "what", finding->what);
    json_put_bool(object, "ok", finding->ok);
    json_put_text(object, "name", finding->name);
    json_put_text(object, "path", finding->path);
    json_put_text(object, "version", finding->version);
    json_put_text(object, "detail", finding->detail);
    json_put_text(object, "remedy", finding->remedy);
    return object;
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
    if (finding->ok && strcmp(finding->what, "NVRTC") == 0)
        diagnosis->nvrtc = true;
    if (finding->ok && strcmp(finding->what, "GPU") == 0)
        diagnosis->gpu = true;
    if (finding->ok && strcmp(finding->what, "C compiler") == 0)
        diagnosis->compiler = true;
    if (diagnosis->list)
        json_add(diagnosis->list, finding_json(finding));
    else
        print_finding(diagnosis, finding);
    return 0;
}

/* Makes one kernel and computes with it: what is found may still not work. */
static bool works_on(struct session *session, const char *device_name)
{
    kiln_device *device = NULL;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    float x[3] = { 1, -3, 4 };
    void *memory = NULL;
    bool good = false;
    if (kiln_device_open(&device, session->service, device_name, NULL) != KILN_OK ||
        kiln_device_get_info(device, &info) != KILN_OK)
        return false;
    char *text = need_format("op=relu6 dtype=f32 target=%s", info.target);
    if (kiln_spec_parse(&spec, session->service, text, NULL) == KILN_OK &&
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
    free(text);
    return good;
}

/* What is wrong with gnuplot, NULL if it draws. The caller frees it. */
static char *gnuplot_problem(void)
{
    char *program = NULL, *complaint = NULL;
    gnuplot_find(&program, &complaint, gnuplot_format_of("-"));
    free(program);
    return complaint;
}

static int examine(struct session *session, const common_args *common)
{
    struct diagnosis diagnosis = { .list = common->json ? json_list() : NULL, .colour = use_colour(stdout) };
    kiln_status status = kiln_doctor(session->service, visit_finding, &diagnosis);
    if (status) {
        json_decref(diagnosis.list);
        return session_fail(session, status, NULL);
    }
    bool gpu = diagnosis.gpu && diagnosis.nvrtc && works_on(session, "cuda:0");
    bool cpu = diagnosis.compiler && works_on(session, "cpu");
    char *pictures = gnuplot_problem();
    if (common->json) {
        json_t *object = json_new();
        json_put_bool(object, "gpu", gpu);
        json_put_bool(object, "cpu", cpu);
        json_put_bool(object, "warm", diagnosis.nvrtc);
        json_put_bool(object, "pictures", !pictures);
        json_put(object, "findings", diagnosis.list);
        json_print(object);
    } else {
        printf("\nkernels run on a GPU: %s\nkernels run on the cpu: %s\nkernels can be compiled for GPUs: %s\n",
               gpu ? "yes" : "no", cpu ? "yes" : "no", diagnosis.nvrtc ? "yes" : "no");
        printf("pictures can be drawn: %s%s\n", pictures ? "no, " : "yes", pictures ? pictures : "");
    }
    free(pictures);
    if (gpu || cpu)
        return STATUS_DONE;
    return fail(STATUS_FAILED, "no kernel can be made and run here; see what is missing above");
}

int command_doctor(int argc, char **argv)
{
    common_args common = { .json = false };
    int status = options_only(&usage, NULL, 0, &common, NULL, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    struct session session;
    status = session_open(&session, &common);
    if (!status)
        status = examine(&session, &common);
    session_close(&session);
    return status;
}
