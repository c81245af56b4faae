/* Watches a user-defined template: each of its specs is compiled, checked, and timed against its last good kernel and
 * against a plain copy. */
#include <stdlib.h>
#include <string.h>

#include "files/whole.h"
#include "kernels/built.h"
#include "kernels/crash.h"
#include "kernels/trial.h"
#include "text/format.h"
#include "text/spectext.h"
#include "watch/watch.h"

enum { MOST_SPECS = 64, WARMUP = 3, ROUNDS = 30 };
enum { FRESH, COPY, COPY_KERNEL, OLD, CONTENDERS };

static const uint64_t gpu_elements = UINT64_C(1) << 26, cpu_elements = UINT64_C(1) << 22;

/* A spec and its last good version. */
typedef struct watched {
    const char *asked;  /* the text of the request */
    const char *spec;   /* of that version, every field set; NULL: there was none yet, and the rest is unknown */
    kiln_kernel *good;  /* NULL, too, where it is only compiled; outlives the service that it came from */
    kiln_program *code; /* the compiled code of that version, to compare */
    bool same_code;     /* as the version before */
    int registers, old_registers;
    double ms, gbps, copy_ratio; /* 0: not timed, also below */
    double old_ms;               /* of the version before, in the same rounds */
    paired change;
    bool other_arguments; /* that version takes others: it was not run, and old_ms is its former time */
    const char *verified; /* "yes", "same twice", or why it was not timed */
    bool fresh;           /* good in this round */
} watched;

struct watch_template {
    const watch_args *args;
    struct session base; /* keeps devices open from round to round */
    char *texts[2];      /* the file and its twin as they were in the last round, NULL for none */
    watched *specs;      /* in the order of the last round that could tell */
    size_t count;
};

/* One round. */
typedef struct version {
    struct watch_template *watch;
    struct session session; /* in which the template has its present text: no service has two of one name */
    text_list asked;
    const char *device; /* of the last kernel that ran; NULL: none did */
    uint64_t elements;  /* of its largest array */
} version;

int watch_template_open(struct watch_template **out, const watch_args *args)
{
    *out = need_alloc(sizeof(**out));
    (*out)->args = args;
    return session_open(&(*out)->base, &args->common);
}

static void drop_version(const watched *one)
{
    kiln_kernel_release(one->good);
    kiln_program_release(one->code);
}

void watch_template_close(struct watch_template *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        drop_version(&watch->specs[i]);
    session_close(&watch->base);
}

char *watch_template_twin(const char *path)
{
    size_t length = strlen(path);
    return need_format("%.*s.c", (int)(length > 3 ? length - 3 : length), path);
}

/* ---- The files */

/* NULL if there is no such file. Loading the file names every other fault. */
static char *read_text(const char *path)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    whole_stream(&text, &length, file, SIZE_MAX);
    fclose(file);
    return text;
}

/* Reads both files; returns whether one is not as it was. */
static bool read_files(struct watch_template *watch)
{
    const char *const paths[2] = { watch->args->file, watch_template_twin(watch->args->file) };
    bool changed = false;
    for (size_t i = 0; i < 2; i++) {
        char *before = watch->texts[i], *text = read_text(paths[i]);
        changed = changed || !text != !before || (text && strcmp(text, before) != 0);
        watch->texts[i] = text;
        free(before); /* a watch may last for days */
    }
    return changed;
}

static int add_asked(void *data, const kiln_spec *spec)
{
    text_list *asked = data;
    if (asked->count == MOST_SPECS)
        return 1;
    text_list_add(asked, need_copy(kiln_spec_text(spec)));
    return 0;
}

static int load_specs(version *now)
{
    const watch_args *args = now->watch->args;
    const char *name = NULL;
    kiln_report *report = &now->session.report;
    int result = session_open(&now->session, &args->common);
    if (result)
        return result;
    kiln_status status = kiln_template_load(now->session.service, args->file, &name, report);
    if (!status) {
        const char *line = need_format("template=%s %s%s%s", name, args->fields, args->target ? " target=" : "",
                                       args->target ? args->target : "");
        status = kiln_spec_expand(now->session.service, line, add_asked, &now->asked, report);
    }
    if (!status && now->asked.count == MOST_SPECS)
        note("only the first %d specs are watched", MOST_SPECS);
    /* As where a session opens: a template that is wrong is bad input, and so is a file that cannot be read. */
    return session_status(&now->session, status, NULL) ? STATUS_USAGE : STATUS_DONE;
}

/* Puts the specs of this round in their order, with their last good versions. */
static void adopt_specs(version *now)
{
    struct watch_template *watch = now->watch;
    watched *specs = need_alloc(now->asked.count * sizeof(*specs));
    for (size_t i = 0; i < now->asked.count; i++) {
        specs[i] = (watched){ .asked = now->asked.items[i] };
        for (size_t k = 0; k < watch->count; k++)
            if (watch->specs[k].asked && strcmp(watch->specs[k].asked, specs[i].asked) == 0) {
                specs[i] = watch->specs[k];
                watch->specs[k] = (watched){ .asked = NULL };
                break;
            }
        specs[i].fresh = false;
    }
    for (size_t k = 0; k < watch->count; k++)
        drop_version(&watch->specs[k]);
    watch->specs = specs;
    watch->count = now->asked.count;
}

/* ---- Compilers' messages about units, in terms of the user's files */

static long count_lines(const char *text)
{
    long lines = 0;
    for (; *text; lines++) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return lines;
}

/* The start of a line that counts from 1; NULL behind the end. */
static const char *find_line(const char *text, long number)
{
    for (long i = 1; i < number && text; i++)
        text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    return text;
}

/* The number of the user's line that is line `number` of the unit, or 0 if it is not from this file. The end of a file
 * is the end of the units that are made of it. */
static long user_line(long number, const char *unit, const char *text)
{
    long mine = number - (count_lines(unit) - count_lines(text));
    const char *theirs = find_line(unit, number);
    text = find_line(text, mine);
    if (number < 1 || mine < 1 || !theirs || !text)
        return 0;
    size_t length = strcspn(text, "\n");
    return length == strcspn(theirs, "\n") && memcmp(text, theirs, length) == 0 ? mine : 0;
}

/* Writes the user's place if there is one at the beginning of the message; returns its length in the message, or 0. */
static size_t map_place(FILE *to, const char *at, const char *unit, const char *path, const char *text)
{
    /* How NVRTC and the C compiler name a place in a unit. */
    static const struct form {
        const char *before, *between, *after; /* between: the path and the number */
    } forms[] = { { "kiln.cu(", "(", ")" }, { "<stdin>:", ":", ":" } };
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        size_t before = strlen(forms[i].before);
        if (strncmp(at, forms[i].before, before) != 0)
            continue;
        char *end = NULL;
        long line = user_line(strtol(at + before, &end, 10), unit, text);
        if (line == 0 || strncmp(end, forms[i].after, strlen(forms[i].after)) != 0)
            continue;
        fprintf(to, "%s%s%ld%s", path, forms[i].between, line, forms[i].after);
        return (size_t)(end - at) + strlen(forms[i].after);
    }
    return 0;
}

/* The message with places in the unit, "kiln.cu(278)" and "<stdin>:278:", replaced by those in the file where the line
 * is the file's. */
static const char *map_places(const char *message, const char *unit, const char *path, const char *text)
{
    struct draft mapped;
    if (!text || !unit)
        return message;
    draft_begin(&mapped);
    while (*message) {
        size_t length = map_place(mapped.stream, message, unit, path, text);
        if (length == 0)
            fputc(*message, mapped.stream);
        message += length ? length : 1;
    }
    draft_end(&mapped);
    return mapped.text;
}

static int fail_compile(version *now, kiln_status status, const kiln_spec *spec, const char *asked)
{
    const struct watch_template *watch = now->watch;
    const kiln_report *report = &now->session.report;
    const char *const paths[2] = { watch->args->file, watch_template_twin(watch->args->file) };
    const char *message = report->message, *log = report->log;
    char *unit = NULL;
    if (kiln_spec_source(&unit, spec, NULL) != KILN_OK)
        unit = NULL;
    for (size_t i = 0; i < 2; i++) {
        message = map_places(message, unit, paths[i], watch->texts[i]);
        log = log ? map_places(log, unit, paths[i], watch->texts[i]) : NULL;
    }
    kiln_report mapped = KILN_INIT(kiln_report);
    snprintf(mapped.message, sizeof(mapped.message), "%s", message);
    mapped.log = (char *)(uintptr_t)log;
    kiln_text_free(unit);
    return fail_report(status, &mapped, asked);
}

/* ---- One kernel */

/* Memory for copies of half the traffic, so that they make as much. */
static kiln_status make_copies(copy_job *out, kiln_service *service, const char *spec, uint64_t traffic)
{
    void *from = NULL;
    out->bytes = copy_bytes(traffic);
    kiln_status status = kiln_alloc(&from, out->device, out->bytes, out->report);
    out->from = from;
    if (!status)
        status = kiln_alloc(&out->to, out->device, out->bytes, out->report);
    if (!status)
        status = kiln_fill(out->device, from, "f32", out->bytes / 4, 1, out->report);
    return status ? status : copy_kernel(out, service, spec);
}

/* Times the new kernel, two copies, and the kernel before, which is left out where it takes other arguments. */
static kiln_status time_kernel(watched *one, kiln_kernel *kernel, copy_job *copy, const kiln_workload_info *load)
{
    kiln_timing timings[CONTENDERS];
    double samples[CONTENDERS * ROUNDS], former = one->spec ? one->ms : 0;
    kiln_report *report = copy->report;
    launch_job fresh = { kernel, load->sizes, load->size_count, load->args, load->arg_count, report }, before = fresh;
    before.kernel = one->good;
    const kiln_contender list[CONTENDERS] = { [FRESH] = { submit_launch, &fresh },
                                              [COPY] = { submit_copy, copy },
                                              [COPY_KERNEL] = { submit_copy_kernel, copy },
                                              [OLD] = { submit_launch, &before } };
    bool old = one->good && kernels_take_the_same(one->good, kernel, load->sizes);
    size_t count = old ? CONTENDERS : CONTENDERS - 1;
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = WARMUP, .rounds = ROUNDS, .replay = 1, .samples = samples
    };
    kiln_status status = kiln_measure(timings, copy->device, list, count, &options, report);
    if (status)
        return status;
    size_t best = timings[COPY].median_ms <= timings[COPY_KERNEL].median_ms ? COPY : COPY_KERNEL;
    one->other_arguments = one->good && !old;
    one->ms = timings[FRESH].median_ms;
    one->gbps = gigabytes_per_second(load->bytes, one->ms);
    one->copy_ratio = paired_ratio(samples, count, ROUNDS, best, FRESH).median;
    one->old_ms = old ? timings[OLD].median_ms : one->other_arguments ? former : 0;
    if (old)
        one->change = paired_ratio(samples, count, ROUNDS, FRESH, OLD);
    return KILN_OK;
}

/* Checks and times a kernel. The arrays are those of the present session: the cpu twin of this text is its own. */
static int try_kernel(version *now, watched *one, kiln_kernel *kernel, const kiln_work *work)
{
    struct session *session = &now->session;
    kiln_report *report = &session->report;
    kiln_kernel_info info = kernel_info(kernel);
    kiln_workload_info load = KILN_INIT(kiln_workload_info);
    kiln_workload *workload = NULL;
    kiln_verification found = KILN_INIT(kiln_verification);
    copy_job copy = { .report = report };
    kiln_status status = kiln_device_open(&copy.device, session->service, info.device, report);
    if (!status)
        status = kiln_workload_make(&workload, session->service, kernel, work, report);
    if (!status)
        status = kiln_workload_get_info(workload, &load);
    if (!status)
        status = kiln_verify(&found, session->service, kernel, NULL, load.sizes, load.size_count, load.args,
                             load.arg_count, NULL, report);
    if (!status)
        status = kiln_workload_reset(workload, report);
    if (!status)
        status = make_copies(&copy, session->service, info.spec, load.bytes);
    if (!status)
        status = time_kernel(one, kernel, &copy, &load);
    now->elements = load.elements;
    /* Two launches that agree tell less than one that agrees with the cpu. */
    one->verified = found.against && strcmp(found.against, "a second launch") == 0 ? "same twice" : "yes";
    kiln_kernel_release(copy.kernel);
    if (copy.device) {
        kiln_free(copy.device, (void *)(uintptr_t)copy.from);
        kiln_free(copy.device, copy.to);
    }
    kiln_workload_free(workload);
    return session_status(session, status, one->asked);
}

static void leave_untimed(watched *one, const char *why)
{
    one->ms = one->old_ms = 0;
    one->other_arguments = false;
    one->verified = why;
}

/* Compilers give equal code for texts that differ in comments and blanks. */
static bool is_same_code(const kiln_program *a, const kiln_program *b)
{
    static const char *const sections[] = { "cubin", "object" };
    bool same = a && b;
    for (size_t i = 0; i < COUNT_OF(sections) && same; i++) {
        size_t mine, theirs;
        const void *here = built_section(&mine, a, sections[i]), *there = built_section(&theirs, b, sections[i]);
        same = mine == theirs && (mine == 0 || memcmp(here, there, mine) == 0);
    }
    return same;
}

/* Makes a version the last good one. Takes over the program, and takes a reference to the kernel, which is NULL where
 * it is only compiled. */
static void keep_version(watched *one, const char *spec, int registers, kiln_kernel *kernel, kiln_program *code)
{
    one->same_code = is_same_code(one->code, code);
    kiln_program_release(one->code);
    one->code = code;
    one->old_registers = one->spec ? one->registers : -1;
    one->registers = registers;
    kiln_kernel_release(one->good);
    one->good = kernel ? kiln_kernel_retain(kernel) : NULL;
    one->spec = need_copy(spec);
    one->fresh = true;
}

/* Without sizes there is nothing to run a kernel on, unless it is flat. */
static int measure(version *now, watched *one, const kiln_spec *spec, kiln_kernel *kernel)
{
    const arg_texts *texts = &now->watch->args->texts;
    arg_values values = { .size_count = 0 };
    kiln_kernel_info info = kernel_info(kernel);
    const char *problem = argvalues_read(&values, spec, texts);
    bool flat = spec_is_flat(spec);
    int result = STATUS_DONE;
    if (problem && (texts->sizes.count > 0 || texts->numbers.count > 0))
        return fail(STATUS_USAGE, "%s", problem);
    if (flat && !values.sizes[0])
        values.sizes[0] = strcmp(info.device, "cpu") == 0 ? cpu_elements : gpu_elements;
    const kiln_work work = argvalues_work(&values, flat);
    if (problem)
        leave_untimed(one, "not run: no --size");
    crash_watch(crash_question(now->session.service, spec));
    if (!problem)
        result = try_kernel(now, one, kernel, &work);
    crash_forget();
    if (result)
        return result;
    kiln_program *code = NULL;
    kiln_status status = build_spec(&code, now->session.service, spec, &now->session.report);
    if (status)
        return session_status(&now->session, status, one->asked);
    keep_version(one, info.spec, info.registers, kernel, code);
    now->device = need_copy(info.device);
    /* The base session keeps the device open until the next round. */
    kiln_device *device = NULL;
    kiln_device_info ignored;
    struct session *base = &now->watch->base;
    return session_status(base, session_device(&device, &ignored, base, info.device), NULL);
}

/* Where there is no device to run it, a kernel is only compiled. */
static int compile_only(version *now, watched *one, const kiln_spec *spec)
{
    kiln_program *program = NULL;
    kiln_report_clear(&now->session.report);
    kiln_status status = build_spec(&program, now->session.service, spec, &now->session.report);
    if (status)
        return fail_compile(now, status, spec, one->asked);
    kiln_program_info info = built_info(program);
    leave_untimed(one, "only compiled");
    keep_version(one, info.spec, info.function_count > 0 ? info.functions[0]->registers : -1, NULL, program);
    return STATUS_DONE;
}

static int try_spec(version *now, watched *one)
{
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    kiln_report *report = &now->session.report;
    kiln_status status = kiln_spec_parse(&spec, now->session.service, one->asked, report);
    if (!status)
        status = kiln_get_kernel(&kernel, now->session.service, spec, report);
    bool no_device = status == KILN_ENODRIVER || status == KILN_ENODEVICE || status == KILN_ETARGET;
    int result = no_device ? compile_only(now, one, spec)
                 : status  ? fail_compile(now, status, spec, one->asked)
                           : measure(now, one, spec, kernel);
    kiln_report_clear(report);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return result;
}

/* ---- Rows */

const char watch_template_columns[] = "spec|>registers|>ms old|>ms new|>change|99%|>GB/s|>of copy|verified";

static char *percent_text(double ratio)
{
    return need_format("%s%s%%", ratio >= 1 ? "+" : "", format_fixed((ratio - 1) * 100, 1));
}

static void add_table_row(struct table *table, const watched *one)
{
    const char *registers = "-", *old = "-", *ms = "-", *change = "-", *interval = "-";
    bool timed = one->spec && one->ms > 0, noise = one->change.low <= 1 && one->change.high >= 1;
    if (one->spec && one->registers >= 0)
        registers = one->fresh && one->old_registers >= 0 && one->old_registers != one->registers
                        ? need_format("%d -> %d", one->old_registers, one->registers)
                        : need_format("%d", one->registers);
    if (timed && one->fresh)
        ms = format_ms_plain(one->ms);
    else if (timed)
        old = format_ms_plain(one->ms); /* it has no successor in this round */
    if (one->fresh && one->old_ms > 0)
        old = format_ms_plain(one->old_ms);
    if (one->fresh && one->other_arguments) {
        change = "other arguments";
    } else if (one->fresh && one->same_code) {
        change = "same code";
    } else if (one->fresh && one->old_ms > 0) {
        change = noise ? "within noise" : percent_text(one->change.median);
        interval = need_format("%s..%s", percent_text(one->change.low), percent_text(one->change.high));
    }
    table_row(table, (const char *const[]){
                         one->asked, registers, old, ms, change, interval, timed ? format_fixed(one->gbps, 1) : "-",
                         timed ? format_fixed(one->copy_ratio, 3) : "-", one->fresh ? one->verified : "failed" });
}

static json_t *time_json(bool known, double value)
{
    return known ? json_number(value) : json_null();
}

static json_t *row_json(const watched *one)
{
    bool timed = one->spec && one->ms > 0, compared = one->fresh && one->old_ms > 0 && !one->other_arguments;
    bool former = one->fresh ? one->old_ms > 0 : timed, same = one->fresh && one->same_code;
    const paired change = same ? (paired){ 1, 1, 1 } : one->change;
    return json_new(
        "asked", json_text(one->asked), "spec", json_text(one->spec), "registers",
        json_known(one->spec ? one->registers : -1), "registers_old", json_known(one->fresh ? one->old_registers : -1),
        "ms", time_json(timed && one->fresh, one->ms), "ms_old", time_json(former, one->fresh ? one->old_ms : one->ms),
        "change", time_json(compared, change.median - 1), "change_low", time_json(compared, change.low - 1),
        "change_high", time_json(compared, change.high - 1), "gbps", time_json(timed, one->gbps), "of_copy",
        time_json(timed, one->copy_ratio), "other_arguments", json_boolean(one->fresh && one->other_arguments),
        "same_code", json_boolean(same), "verified", json_text(one->fresh ? one->verified : "failed"), NULL);
}

/* ---- Rounds */

/* After an illegal access CUDA refuses all further work of this process. */
static bool device_is_gone(version *now)
{
    kiln_device *device = NULL;
    struct session *base = &now->watch->base;
    if (kiln_device_open(&device, base->service, NULL, NULL) != KILN_OK || kiln_sync(device, NULL) == KILN_OK)
        return false;
    fail(STATUS_FAILED, "a kernel broke the device for this process, which takes no more work: start again");
    return true;
}

int watch_template_round(struct watch_template *watch, watch_round *round)
{
    version now = { .watch = watch };
    round->unchanged = !read_files(watch) && watch->count > 0;
    if (round->unchanged)
        return STATUS_DONE;
    int result = load_specs(&now);
    if (!result) {
        adopt_specs(&now);
        for (size_t i = 0; i < watch->count; i++) {
            int tried = try_spec(&now, &watch->specs[i]);
            result = result ? result : tried;
        }
        round->over = result && device_is_gone(&now);
    } else {
        for (size_t i = 0; i < watch->count; i++)
            watch->specs[i].fresh = false;
    }
    for (size_t i = 0; i < watch->count; i++) {
        add_table_row(round->table, &watch->specs[i]);
        json_add(round->rows, row_json(&watch->specs[i]));
    }
    round->title = now.device
                       ? need_format("%s on %s, %s elements", watch->args->file, now.device, format_power(now.elements))
                       : need_copy(watch->args->file);
    session_close(&now.session);
    return result;
}
