#include "watchtemplate.h"

#include <errno.h>
#include <kiln/define.h>
#include <kiln/source.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "paired.h"
#include "prove.h"
#include "spectext.h"
#include "submit.h"
#include "userlines.h"

enum { MOST_SPECS = 64, WARMUP = 3, ROUNDS = 30, CONTENDERS = 4 };

static const uint64_t gpu_elements = UINT64_C(1) << 26, cpu_elements = UINT64_C(1) << 22;

/* A spec, by the text that it was asked for with, and what is known of it. */
typedef struct watched {
    char *asked;
    char *spec;        /* of the last good version, every field set; NULL: there was none yet, as with what follows */
    kiln_kernel *good; /* NULL, too, where it is only compiled; outlives the service that it came from */
    int registers, old_registers;
    double ms, gbps, copy_ratio; /* 0: not timed, also below */
    double old_ms;               /* of the version before, in the same rounds */
    paired change;
    const char *verified; /* "yes", "no reference", ... */
    bool fresh;           /* good in this round */
} watched;

struct watchtemplate {
    const watch_args *args;
    struct session base; /* lives as long as the watch: its devices and their memory do */
    char *texts[2];      /* the file and its twin as they were in the last round, NULL for none */
    watched *specs;      /* in the order of the last round that could tell */
    size_t count;
};

/* What is known in one round. */
typedef struct version {
    struct watchtemplate *watch;
    struct session session; /* in which the template has its present text: no service has two of one name */
    const char *name;
    bool own_arguments, checkable;
    char **asked;
    size_t count;
    char *device;
    uint64_t elements;
} version;

const char watchtemplate_columns[] = "spec|>registers|>ms old|>ms new|>change|95%|>GB/s|>of copy|verified";

int watchtemplate_open(struct watchtemplate **out, const watch_args *args)
{
    *out = need_alloc(sizeof(**out));
    (*out)->args = args;
    return session_open(&(*out)->base, &args->common);
}

char *watchtemplate_twin(const char *path)
{
    size_t length = strlen(path);
    return need_format("%.*s.c", (int)(length > 3 ? length - 3 : length), path);
}

static void forget(watched *one)
{
    kiln_release(one->good);
    free(one->asked);
    free(one->spec);
}

void watchtemplate_close(struct watchtemplate *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        forget(&watch->specs[i]);
    free(watch->specs);
    free(watch->texts[0]);
    free(watch->texts[1]);
    session_close(&watch->base);
    free(watch);
}

/* ---- The files */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* NULL if there is no such file; what else may be wrong with it, loading it says. */
static char *read_text(const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    if (getdelim(&text, &room, '\0', file) < 0) {
        free(text);
        text = need_copy("");
    }
    fclose(file);
    return text;
}

/* Reads both files; returns whether one is not as it was. */
static bool read_files(struct watchtemplate *watch)
{
    char *twin = watchtemplate_twin(watch->args->file);
    const char *const paths[2] = { watch->args->file, twin };
    bool changed = false;
    for (size_t i = 0; i < 2; i++) {
        char *text = read_text(paths[i]);
        changed = changed || !same_text(text, watch->texts[i]);
        free(watch->texts[i]);
        watch->texts[i] = text;
    }
    free(twin);
    return changed;
}

static int note_template(void *data, const kiln_template_info *info)
{
    version *now = data;
    if (strcmp(info->name, now->name) != 0)
        return 0;
    now->own_arguments = info->own_arguments;
    now->checkable = *info->reference || info->has_twin;
    return 1;
}

static int add_asked(void *data, kiln_spec *spec)
{
    version *now = data;
    size_t length = 0;
    if (now->count == MOST_SPECS)
        return 1;
    kiln_spec_format(spec, NULL, 0, &length);
    now->asked = need_array(now->asked, now->count + 1, sizeof(*now->asked));
    now->asked[now->count] = need_alloc(length + 1);
    kiln_spec_format(spec, now->asked[now->count++], length + 1, NULL);
    return 0;
}

static int load(version *now)
{
    const watch_args *args = now->watch->args;
    int result = session_open(&now->session, &args->common);
    kiln_report *report = &now->session.report;
    kiln_status status = KILN_OK;
    if (result)
        return result;
    status = kiln_template_load(now->session.service, args->file, &now->name, report);
    if (!status)
        status = kiln_templates(now->session.service, note_template, now);
    if (!status) {
        char *target = args->target ? need_format(" target=%s", args->target) : need_copy("");
        char *line = need_format("template=%s %s%s", now->name, args->fields, target);
        status = kiln_spec_expand(now->session.service, line, add_asked, now, report);
        free(line);
        free(target);
    }
    if (status)
        return session_fail(&now->session, status, NULL);
    if (now->count == MOST_SPECS)
        note("only the first %d specs are watched", MOST_SPECS);
    return STATUS_DONE;
}

/* The specs of this round in their order, with what was known of them. */
static void adopt(version *now)
{
    struct watchtemplate *watch = now->watch;
    watched *specs = need_alloc(now->count * sizeof(*specs));
    for (size_t i = 0; i < now->count; i++) {
        specs[i] = (watched){ .asked = now->asked[i] };
        for (size_t k = 0; k < watch->count; k++)
            if (watch->specs[k].asked && strcmp(watch->specs[k].asked, now->asked[i]) == 0) {
                free(specs[i].asked);
                specs[i] = watch->specs[k];
                watch->specs[k] = (watched){ .asked = NULL };
                break;
            }
        specs[i].fresh = false;
    }
    for (size_t k = 0; k < watch->count; k++)
        forget(&watch->specs[k]);
    free(watch->specs);
    free(now->asked);
    watch->specs = specs;
    watch->count = now->count;
}

/* ---- One spec */

/* With the places in the compiler's messages as the user knows them. */
static int fail_compile(version *now, kiln_status status, const kiln_spec *spec, const char *asked)
{
    kiln_report *report = &now->session.report;
    char *unit = NULL, *twin = watchtemplate_twin(now->watch->args->file);
    kiln_report ignored = KILN_REPORT_INIT;
    if (kiln_spec_source(&unit, now->session.service, spec, &ignored) != KILN_OK)
        unit = NULL;
    kiln_report_clear(&ignored);
    for (size_t i = 0; i < 2; i++) {
        const user_file file = { i ? twin : now->watch->args->file, now->watch->texts[i] };
        char *message = userlines_map(report->message, unit, &file);
        snprintf(report->message, sizeof(report->message), "%s", message);
        free(message);
        if (!report->log)
            continue;
        /* The report's log is the library's to free. */
        char *log = userlines_map(report->log, unit, &file);
        kiln_report mapped = { sizeof(mapped), report->status, report->stage, report->native, "", NULL };
        snprintf(mapped.message, sizeof(mapped.message), "%s", report->message);
        kiln_report_clear(report);
        *report = mapped;
        report->log = log;
    }
    free(twin);
    int result = session_fail(&now->session, status, asked);
    kiln_text_free(unit);
    return result;
}

/* Where there is no device to run it: compiled, and what it uses. */
static int compile_only(version *now, watched *one, const kiln_spec *spec)
{
    kiln_artifact *artifact = NULL;
    kiln_symbol_info info = { .size = sizeof(info), .registers = -1 };
    kiln_report_clear(&now->session.report);
    kiln_status status = kiln_build(&artifact, now->session.service, spec, &now->session.report);
    if (status)
        return fail_compile(now, status, spec, one->asked);
    one->old_registers = one->spec ? one->registers : -1;
    one->registers = kiln_artifact_symbol(artifact, 0, &info) == KILN_OK ? info.registers : -1;
    kiln_release(one->good);
    one->good = NULL;
    free(one->spec);
    one->spec = need_copy(kiln_artifact_spec(artifact));
    one->ms = one->old_ms = 0;
    one->verified = "only compiled";
    one->fresh = true;
    kiln_artifact_free(artifact);
    return STATUS_DONE;
}

/* The new kernel, the last good one if there is one, and two copies, in the same rounds. */
static kiln_status measure(version *now, watched *one, const prove_job *proof, const struct benchmemory *memory)
{
    struct session *base = &now->watch->base;
    kiln_kernel *copy_kernel = NULL;
    kiln_timing timings[CONTENDERS];
    const void *from[1] = { memory->copy_from };
    kiln_report *report = &base->report;
    const void *const *in = (const void *const *)memory->in;
    kiln_status status = prove_copy_kernel(&copy_kernel, base, proof->info->spec);
    if (status)
        return status;
    launch_job fresh = { proof->kernel, proof->elements, memory->out, in, report };
    launch_job old = { one->good, proof->elements, memory->out, in, report };
    launch_job plain = { copy_kernel, memory->copy_bytes / 4, memory->copy_to, from, report };
    copy_job copy = { memory->device, memory->copy_to, memory->copy_from, memory->copy_bytes, report };
    const kiln_contender list[CONTENDERS] = {
        { submit_launch, &fresh }, { submit_copy, &copy }, { submit_launch, &plain }, { submit_launch, &old }
    };
    size_t count = one->good ? CONTENDERS : CONTENDERS - 1;
    double *samples = need_array(NULL, count * ROUNDS, sizeof(*samples));
    status = kiln_measure(memory->device, list, count, WARMUP, ROUNDS, timings, samples, report);
    if (!status) {
        size_t best = timings[1].median_ms <= timings[2].median_ms ? 1 : 2;
        uint64_t bytes = proof->elements * proof->type->size * (proof->info->inputs + 1);
        one->ms = timings[0].median_ms;
        one->gbps = gigabytes_per_second(bytes, one->ms);
        one->copy_ratio = paired_ratio(samples, count, ROUNDS, best, 0).median;
        one->old_ms = one->good ? timings[3].median_ms : 0;
        if (one->good)
            one->change = paired_ratio(samples, count, ROUNDS, 0, 3);
    }
    free(samples);
    kiln_release(copy_kernel);
    return status;
}

/* Takes over the kernel. */
static void keep(watched *one, kiln_kernel *kernel, const kiln_kernel_info *info)
{
    one->old_registers = one->spec ? one->registers : -1;
    one->registers = info->registers;
    kiln_release(one->good);
    one->good = kernel;
    free(one->spec);
    one->spec = need_copy(info->spec);
    one->fresh = true;
}

/* On an array of the base session's device, which all versions share. */
static int prove_and_measure(version *now, watched *one, const prove_job *proof)
{
    struct session *base = &now->watch->base;
    struct benchmemory memory = { .device = NULL };
    kiln_device *device = NULL;
    kiln_status status = kiln_device_open(&device, base->service, proof->info->device, &base->report);
    if (status)
        return session_fail(base, status, NULL);
    int result = benchmemory_make(&memory, base, device, proof->type, proof->info->inputs, proof->elements);
    if (!result)
        result = prove_kernel(proof, &now->session, &memory, now->checkable);
    if (!result && (status = measure(now, one, proof, &memory)))
        result = session_fail(base, status, one->asked);
    benchmemory_free(&memory);
    return result;
}

static int try_kernel(version *now, watched *one, kiln_kernel *kernel)
{
    kiln_kernel_info info = { .size = sizeof(info) };
    char *type = NULL;
    kiln_kernel_get_info(kernel, &info);
    spectext_field(&type, info.spec, "dtype");
    bool cpu = strcmp(info.device, "cpu") == 0;
    const uint64_t usual = cpu ? cpu_elements : gpu_elements;
    const prove_job proof = { kernel, &info, type ? dtype_named(type) : NULL,
                              now->watch->args->elements ? now->watch->args->elements : usual };
    free(type);
    /* Its arrays are not those that are made here. */
    bool untimed = now->own_arguments || info.output_bytes || !proof.type;
    int result = untimed ? STATUS_DONE : prove_and_measure(now, one, &proof);
    if (result)
        return result;
    if (untimed)
        one->ms = one->old_ms = 0;
    one->verified = untimed ? "not run" : now->checkable ? "yes" : "no reference";
    now->elements = proof.elements;
    free(now->device);
    now->device = need_copy(info.device);
    keep(one, kiln_retain(kernel), &info);
    return STATUS_DONE;
}

static int try_spec(version *now, watched *one)
{
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    kiln_report *report = &now->session.report;
    int result = STATUS_DONE;
    kiln_status status = kiln_spec_parse(&spec, now->session.service, one->asked, report);
    if (!status)
        status = kiln_get(&kernel, now->session.service, spec, report);
    if (status == KILN_ENODRIVER || status == KILN_ENODEVICE || status == KILN_ETARGET)
        result = compile_only(now, one, spec);
    else if (status)
        result = fail_compile(now, status, spec, one->asked);
    else
        result = try_kernel(now, one, kernel);
    kiln_report_clear(report);
    kiln_release(kernel);
    kiln_spec_free(spec);
    return result;
}

/* ---- What is shown */

static char *percent(double ratio)
{
    char number[FORMAT_ROOM];
    return need_format("%s%s%%", ratio >= 1 ? "+" : "", format_fixed(number, (ratio - 1) * 100, 1));
}

static void format_change(char **change, char **interval, const watched *one)
{
    *change = *interval = NULL;
    if (!(one->old_ms > 0))
        return;
    bool noise = one->change.low <= 1 && one->change.high >= 1;
    char *low = percent(one->change.low), *high = percent(one->change.high);
    *change = noise ? need_copy("within noise") : percent(one->change.median);
    *interval = need_format("%s..%s", low, high);
    free(low);
    free(high);
}

static void add_table_row(struct table *table, const watched *one)
{
    char ms[FORMAT_ROOM] = "-", old[FORMAT_ROOM] = "-", rate[FORMAT_ROOM] = "-", copy[FORMAT_ROOM] = "-";
    char *change = NULL, *interval = NULL;
    char *registers = !one->spec || one->registers < 0 ? need_copy("-")
                      : one->fresh && one->old_registers >= 0 && one->old_registers != one->registers
                          ? need_format("%d -> %d", one->old_registers, one->registers)
                          : need_format("%d", one->registers);
    if (one->spec && one->ms > 0) {
        /* What did not get a successor is the old one. */
        format_ms_plain(one->fresh ? ms : old, one->ms);
        format_fixed(rate, one->gbps, 1);
        format_fixed(copy, one->copy_ratio, 3);
    }
    if (one->fresh && one->old_ms > 0)
        format_ms_plain(old, one->old_ms);
    if (one->fresh)
        format_change(&change, &interval, one);
    table_row(table,
              (const char *const[]){ one->asked, registers, old, ms, change ? change : "-", interval ? interval : "-",
                                     rate, copy, one->fresh ? one->verified : "failed" });
    free(registers);
    free(change);
    free(interval);
}

static void put_time(json_t *row, const char *key, bool known, double value)
{
    if (known)
        json_put_real(row, key, value);
    else
        json_put_null(row, key);
}

static void put_registers(json_t *row, const char *key, bool known, int value)
{
    if (known && value >= 0)
        json_put_count(row, key, (uint64_t)value);
    else
        json_put_null(row, key);
}

static json_t *row_json(const watched *one)
{
    json_t *row = json_new();
    bool timed = one->spec && one->ms > 0, compared = one->fresh && one->old_ms > 0;
    json_put_text(row, "asked", one->asked);
    if (one->spec)
        json_put_text(row, "spec", one->spec);
    else
        json_put_null(row, "spec");
    put_registers(row, "registers", one->spec, one->registers);
    put_registers(row, "registers_old", one->fresh, one->old_registers);
    put_time(row, "ms", timed && one->fresh, one->ms);
    put_time(row, "ms_old", compared || (timed && !one->fresh), compared ? one->old_ms : one->ms);
    put_time(row, "change", compared, one->change.median - 1);
    put_time(row, "change_low", compared, one->change.low - 1);
    put_time(row, "change_high", compared, one->change.high - 1);
    put_time(row, "gbps", timed, one->gbps);
    put_time(row, "of_copy", timed, one->copy_ratio);
    json_put_text(row, "verified", one->fresh ? one->verified : "failed");
    return row;
}

static void show(const version *now, watch_round *round)
{
    const struct watchtemplate *watch = now->watch;
    char size[FORMAT_ROOM];
    for (size_t i = 0; i < watch->count; i++) {
        add_table_row(round->table, &watch->specs[i]);
        json_add(round->rows, row_json(&watch->specs[i]));
    }
    round->title = now->device ? need_format("%s on %s, %s elements", watch->args->file, now->device,
                                             format_power(size, now->elements))
                               : need_copy(watch->args->file);
}

/* After an illegal access CUDA refuses all that this process asks for. */
static bool device_is_gone(version *now)
{
    kiln_device *device = NULL;
    struct session *base = &now->watch->base;
    if (kiln_device_open(&device, base->service, NULL, NULL) != KILN_OK || kiln_sync(device, NULL) == KILN_OK)
        return false;
    fail(STATUS_FAILED, "the device takes no more work from this process, after what a kernel did: start again");
    return true;
}

int watchtemplate_round(struct watchtemplate *watch, watch_round *round)
{
    version now = { .watch = watch };
    round->unchanged = !read_files(watch) && watch->count > 0;
    if (round->unchanged)
        return STATUS_DONE;
    int result = load(&now);
    if (!result) {
        adopt(&now);
        for (size_t i = 0; i < watch->count; i++)
            if (try_spec(&now, &watch->specs[i]))
                result = STATUS_FAILED;
        round->over = result && device_is_gone(&now);
    } else {
        for (size_t i = 0; i < watch->count; i++)
            watch->specs[i].fresh = false;
        for (size_t i = 0; i < now.count; i++)
            free(now.asked[i]);
        free(now.asked);
    }
    show(&now, round);
    free(now.device);
    session_close(&now.session);
    return result ? STATUS_FAILED : STATUS_DONE;
}
