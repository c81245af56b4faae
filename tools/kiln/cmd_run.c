#include <inttypes.h>
#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "files/npy.h"
#include "files/output.h"
#include "kernels/argvalues.h"
#include "kernels/signature.h"
#include "kernels/submit.h"
#include "kernels/verify.h"
#include "run/runargs.h"
#include "run/runresult.h"
#include "run/specchange.h"
#include "text/dtype.h"
#include "text/format.h"
#include "text/spectext.h"

enum { POISON = 0xa5, TIMED_ROUNDS = 20, TIMED_WARMUP = 3 };

typedef struct run_args {
    const char *spec;
    text_list in, numbers, sizes;
    const char *out;
    run_wishes wishes;
    common_args common;
} run_args;

/* One run, from the files to the result; what is not yet made is NULL. */
struct job {
    const run_args *args;
    struct session session;
    kiln_spec *spec;
    npy_array inputs[SIGNATURE_MOST_INPUTS];
    uint32_t input_count;
    kiln_kernel *kernel;
    kiln_kernel_info info;
    kiln_device_info device_info;
    kiln_device *device;
    void *host_in[SIGNATURE_MOST_INPUTS], *host_out;
    void *device_in[SIGNATURE_MOST_INPUTS], *device_out;
    kiln_timing timing;
    verified_launch verified;
    struct output output;
};

static const struct usage usage = {
    "kiln run SPEC --in FILE.npy [--in FILE.npy ...] --out FILE.npy [options]",
    "Computes SPEC, for example op=hardsigmoid, on the input arrays and writes the result with their shape\n"
    "and dtype. Arrays are .npy files in C order, little endian, all of one shape and dtype: <f4 is f32,\n"
    "<f8 f64, <f2 f16; bf16 travels as <u2 bits where dtype=bf16 is named. FILE of --out may be one of the\n"
    "inputs; it is replaced only when the whole result is there.",
    "  kiln run 'op=hardsigmoid' --in x.npy --out y.npy\n"
    "  kiln run 'op=add' --in x.npy --in y.npy --out z.npy --device cpu --verify --time",
};

static int parse_args(run_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "in", 'i', OPTION_LIST, "FILE", "an input array; once for each input, in order", &args->in },
        { "out", 'o', OPTION_TEXT, "FILE", "where the result goes", &args->out },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a number that a kernel of your own takes", &args->numbers },
        { "size", 0, OPTION_LIST, "NAME=VALUE", "a size of a kernel of your own that no input has", &args->sizes },
        { "verify", 0, OPTION_FLAG, NULL, "compare with the cpu backend, bit for bit", &args->wishes.verify },
        { "time", 0, OPTION_FLAG, NULL, "time several launches and take the median", &args->wishes.time },
        { "stats", 0, OPTION_FLAG, NULL, "count hits, misses, compiles and faults, by reason", &args->wishes.stats },
    };
    text_list words = { NULL, 0 };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &words, argc, argv);
    if (status == OPTIONS_GO_ON) {
        if (words.count != 1)
            status = options_wrong(&usage,
                                   words.count ? "one SPEC expected, '%s' is too much (quote a spec of several "
                                                 "fields)"
                                               : "no SPEC given, expected one such as op=hardsigmoid",
                                   words.count ? words.items[1] : "");
        else if (args->in.count == 0)
            status = options_wrong(&usage, "no input given, expected --in FILE.npy");
        else if (!args->out)
            status = options_wrong(&usage, "no output given, expected --out FILE.npy");
        else
            args->spec = words.items[0];
    }
    free(words.items);
    return status;
}

/* Those that are not open yet, up to `count`. */
static int open_inputs(struct job *job, size_t count)
{
    while (job->input_count < count) {
        npy_array *array = &job->inputs[job->input_count++];
        const npy_array *first = &job->inputs[0];
        int status = npy_open(array, job->args->in.items[job->input_count - 1]);
        if (status)
            return status;
        if (strcmp(array->descr, first->descr) != 0)
            return fail(STATUS_USAGE, "%s: has dtype %s, but %s has %s; all inputs must have one dtype", array->path,
                        array->descr, first->path, first->descr);
        if (!npy_same_shape(array, first)) {
            char *mine = npy_shape_text(array), *theirs = npy_shape_text(first);
            fail(STATUS_USAGE, "%s: has shape %s, but %s has %s; all inputs must have one shape", array->path, mine,
                 first->path, theirs);
            free(mine);
            free(theirs);
            return STATUS_USAGE;
        }
    }
    return STATUS_DONE;
}

/* The spec's dtype where it names one, else the inputs'. */
static int settle_dtype(struct job *job)
{
    const npy_array *array = &job->inputs[0];
    const dtype *natural = dtype_of_descr(array->descr);
    const char *named = kiln_spec_field(job->spec, "dtype");
    if (!named[0] && !natural)
        return fail(STATUS_USAGE, "%s: has dtype <u2; name dtype=bf16 in the spec if it holds the bits of bf16 values",
                    array->path);
    if (!named[0]) {
        kiln_status status = spec_set(&job->spec, "dtype", natural->name, &job->session.report);
        return status ? session_fail(&job->session, status, NULL) : STATUS_DONE;
    }
    const dtype *wanted = dtype_named(named);
    if (!wanted)
        return fail(STATUS_USAGE, "dtype %s cannot be read from .npy files; expected %s", named, dtype_names());
    if (strcmp(wanted->descr, array->descr) != 0)
        return fail(STATUS_USAGE, "%s: has dtype %s, but the spec says dtype=%s, which is %s in a file%s%s",
                    array->path, array->descr, named, wanted->descr, natural ? "; leave dtype out or name dtype=" : "",
                    natural ? natural->name : "");
    return STATUS_DONE;
}

static int get_kernel(struct job *job)
{
    kiln_report *report = &job->session.report;
    uint32_t wanted = signature_inputs(spec_signature(job->spec));
    if (wanted > 0 && wanted != job->input_count)
        return fail(STATUS_USAGE, "'%s' takes %u input%s, %u given; give --in once for each", job->args->spec, wanted,
                    wanted == 1 ? "" : "s", job->input_count);
    kiln_status status = kiln_get_kernel(&job->kernel, job->session.service, job->spec, report);
    if (status)
        return session_fail(&job->session, status, NULL);
    job->info = (kiln_kernel_info)KILN_INIT(kiln_kernel_info);
    job->device_info = (kiln_device_info)KILN_INIT(kiln_device_info);
    status = kiln_kernel_get_info(job->kernel, &job->info);
    if (!status)
        status = kiln_device_open(&job->device, job->session.service, job->info.device, report);
    if (!status)
        status = kiln_device_get_info(job->device, &job->device_info);
    return status ? session_fail(&job->session, status, NULL) : STATUS_DONE;
}

static bool on_cpu(const struct job *job)
{
    return strcmp(job->info.device, "cpu") == 0;
}

static void *host_buffer(uint64_t bytes)
{
    void *memory = NULL;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&memory, 256, bytes ? bytes : 1) != 0)
        return NULL;
    return memory;
}

/* Fills the output with what no kernel writes by chance, so that an element that is not computed is seen. */
static int load_inputs(struct job *job)
{
    uint64_t bytes = job->inputs[0].bytes;
    for (uint32_t i = 0; i < job->input_count; i++) {
        job->host_in[i] = host_buffer(bytes);
        if (!job->host_in[i])
            return fail(STATUS_FAILED, "%s: no memory for its %" PRIu64 " bytes", job->inputs[i].path, bytes);
        int status = npy_read(&job->inputs[i], job->host_in[i]);
        if (status)
            return status;
    }
    job->host_out = host_buffer(bytes);
    if (!job->host_out)
        return fail(STATUS_FAILED, "no memory for the result's %" PRIu64 " bytes", bytes);
    memset(job->host_out, POISON, bytes);
    return STATUS_DONE;
}

static kiln_status to_device(struct job *job, void **out, const void *data)
{
    uint64_t bytes = job->inputs[0].bytes;
    kiln_report *report = &job->session.report;
    kiln_status status = kiln_alloc(out, job->device, bytes ? bytes : 1, report);
    if (!status && bytes)
        status = kiln_upload(job->device, *out, data, bytes, report);
    return status;
}

static int place_arrays(struct job *job)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < job->input_count && !status; i++)
        if (on_cpu(job))
            job->device_in[i] = job->host_in[i];
        else
            status = to_device(job, &job->device_in[i], job->host_in[i]);
    if (on_cpu(job))
        job->device_out = job->host_out;
    else if (!status)
        status = to_device(job, &job->device_out, job->host_out);
    return status ? session_fail(&job->session, status, NULL) : STATUS_DONE;
}

/* The launch whose result is written. It may load code, touch new memory or wake a GPU: it is not timed. */
static int launch_first(struct job *job, launch_job *work)
{
    kiln_report *report = &job->session.report;
    kiln_status status = KILN_OK;
    if (job->args->wishes.verify) {
        int result = verify_launch_n(&job->verified, &job->session, job->kernel, work->n, job->device_out,
                                     (const void *const *)job->device_in);
        if (result)
            return result;
    } else if (!(status = submit_launch(work, NULL))) {
        status = kiln_sync(job->device, report);
    }
    if (!status && !on_cpu(job) && work->n > 0)
        status = kiln_download(job->device, job->host_out, job->device_out, job->inputs[0].bytes, report);
    return status ? session_fail(&job->session, status, NULL) : STATUS_DONE;
}

static kiln_status time_once(struct job *job, launch_job *work)
{
    double start = now_seconds();
    kiln_status status = submit_launch(work, NULL);
    if (!status)
        status = kiln_sync(job->device, work->report);
    job->timing.median_ms = 1e3 * (now_seconds() - start);
    return status;
}

static int launch(struct job *job)
{
    kiln_report *report = &job->session.report;
    launch_job work = { job->kernel,
                        job->inputs[0].elements,
                        job->device_out,
                        (const void *const *)job->device_in,
                        signature_inputs(job->info.signature),
                        report };
    kiln_contender contender = { submit_launch, &work };
    const kiln_measure_options options = { .size = sizeof(options), .warmup = TIMED_WARMUP, .rounds = TIMED_ROUNDS };
    int result = launch_first(job, &work);
    if (result || work.n == 0)
        return result;
    kiln_status status = job->args->wishes.time
                             ? kiln_measure(&job->timing, job->device, &contender, 1, &options, report)
                             : time_once(job, &work);
    return status ? session_fail(&job->session, status, NULL) : STATUS_DONE;
}

static run_wishes wishes_of(const run_args *args)
{
    run_wishes wishes = args->wishes;
    wishes.json = args->common.json;
    return wishes;
}

/* "n=1003" where the spec names a template, which calls its size as it likes; else NULL. Freed by the caller. */
static char *sizes_text(const struct job *job)
{
    char *name = NULL, *text = NULL;
    if (spectext_field(&name, job->info.spec, "template"))
        text = need_format("%s=%" PRIu64, job->info.signature->sizes[0], job->inputs[0].elements);
    free(name);
    return text;
}

static int give(struct job *job, int status)
{
    char *sizes = status ? NULL : sizes_text(job);
    const run_result result = { .wishes = wishes_of(job->args),
                                .array = &job->inputs[0],
                                .data = job->host_out,
                                .service = job->session.service,
                                .kernel = &job->info,
                                .device = &job->device_info,
                                .sizes = sizes,
                                .ms = job->timing.median_ms,
                                .bytes = (job->input_count + 1) * job->inputs[0].bytes,
                                .verified = job->args->wishes.verify ? &job->verified : NULL };
    status = run_result_give(&result, &job->output, status);
    free(sizes);
    return status;
}

static int run_arguments(struct job *job)
{
    const run_args *args = job->args;
    const runargs own = { .session = &job->session,
                          .spec = &job->spec,
                          .in = &args->in,
                          .numbers = &args->numbers,
                          .sizes = &args->sizes,
                          .out = args->out,
                          .wishes = wishes_of(args) };
    return runargs_run(&own);
}

/* What a plain kernel (signature.h) has no use for. */
static int check_plain(const run_args *args)
{
    if (args->numbers.count > 0)
        return fail(STATUS_USAGE, "--arg %s: this kernel takes no numbers", args->numbers.items[0]);
    if (args->sizes.count > 0)
        return fail(STATUS_USAGE, "--size %s: this kernel takes its size from the inputs", args->sizes.items[0]);
    if (args->in.count > SIGNATURE_MOST_INPUTS)
        return fail(STATUS_USAGE, "%zu inputs given, at most %d can be read; see kiln run --help", args->in.count,
                    SIGNATURE_MOST_INPUTS);
    return STATUS_DONE;
}

static int run_plain(struct job *job)
{
    int status = open_inputs(job, job->args->in.count);
    if (!status)
        status = get_kernel(job);
    if (!status)
        status = output_open(&job->output, job->args->out, job->inputs[0].bytes);
    if (!status)
        status = load_inputs(job);
    if (!status)
        status = place_arrays(job);
    if (!status)
        status = launch(job);
    return give(job, status);
}

/* Only the dtype, which the first input may settle, tells whether the arrays of some templates are all of one type. */
static int run_job(struct job *job)
{
    int status = session_open(&job->session, &job->args->common);
    if (status)
        return status;
    kiln_status parsed = kiln_spec_parse(&job->spec, job->session.service, job->args->spec, &job->session.report);
    if (parsed)
        return session_fail(&job->session, parsed, NULL);
    kernel_takes takes = signature_takes(spec_signature(job->spec));
    if (!takes_plain(&takes))
        return run_arguments(job);
    status = check_plain(job->args);
    if (!status)
        status = open_inputs(job, 1);
    if (!status)
        status = settle_dtype(job);
    takes = signature_takes(spec_signature(job->spec));
    if (!status && !takes_plain_of(&takes, kiln_spec_field(job->spec, "dtype")))
        return run_arguments(job);
    return status ? status : run_plain(job);
}

static void free_job(struct job *job)
{
    for (uint32_t i = 0; i < job->input_count; i++) {
        npy_close(&job->inputs[i]);
        free(job->host_in[i]);
        if (job->device_in[i] != job->host_in[i])
            kiln_free(job->device, job->device_in[i]);
    }
    if (job->device_out != job->host_out)
        kiln_free(job->device, job->device_out);
    free(job->host_out);
    output_close(&job->output);
    kiln_kernel_release(job->kernel);
    kiln_spec_free(job->spec);
    session_close(&job->session);
}

int command_run(int argc, char **argv)
{
    run_args args = { .spec = NULL };
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct job job = { .args = &args, .output = { .fd = -1 } };
        status = run_job(&job);
        free_job(&job);
    }
    free(args.in.items);
    free(args.numbers.items);
    free(args.sizes.items);
    return status;
}
