#include "watch/watchtemplate.h"

#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/built.h"
#include "text/format.h"
#include "text/userlines.h"
#include "watch/watchmeasure.h"
#include "watch/watchrows.h"

enum { MOST_SPECS = 64 };

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
    watch_job job;
    char **asked;
    size_t count;
} version;

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
    kiln_kernel_release(one->good);
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

static int add_asked(void *data, const kiln_spec *spec)
{
    version *now = data;
    if (now->count == MOST_SPECS)
        return 1;
    now->asked = need_array(now->asked, now->count + 1, sizeof(*now->asked));
    now->asked[now->count++] = need_copy(kiln_spec_text(spec));
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
    kiln_report ignored = KILN_INIT(kiln_report);
    if (kiln_spec_source(&unit, spec, &ignored) != KILN_OK)
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
        kiln_report mapped = {
            .size = sizeof(mapped), .status = report->status, .native = report->native, .stage = report->stage
        };
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
    kiln_program *program = NULL;
    kiln_report_clear(&now->session.report);
    kiln_status status = build_spec(&program, now->session.service, spec, &now->session.report);
    if (status)
        return fail_compile(now, status, spec, one->asked);
    one->old_registers = one->spec ? one->registers : -1;
    kiln_program_info info = built_info(program);
    one->registers = info.function_count > 0 ? info.functions[0]->registers : -1;
    kiln_kernel_release(one->good);
    one->good = NULL;
    free(one->spec);
    one->spec = need_copy(info.spec);
    one->ms = one->old_ms = 0;
    one->other_arguments = false;
    one->verified = "only compiled";
    one->fresh = true;
    kiln_program_release(program);
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
        status = kiln_get_kernel(&kernel, now->session.service, spec, report);
    if (status == KILN_ENODRIVER || status == KILN_ENODEVICE || status == KILN_ETARGET)
        result = compile_only(now, one, spec);
    else if (status)
        result = fail_compile(now, status, spec, one->asked);
    else
        result = watchmeasure(&now->job, one, kernel);
    kiln_report_clear(report);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return result;
}

static void show(const version *now, watch_round *round)
{
    const struct watchtemplate *watch = now->watch;
    char size[FORMAT_ROOM];
    for (size_t i = 0; i < watch->count; i++) {
        watchrows_add(round, &watch->specs[i]);
    }
    round->title = now->job.device ? need_format("%s on %s, %s elements", watch->args->file, now->job.device,
                                                 format_power(size, now->job.elements))
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
    now.job = (watch_job){ .base = &watch->base, .session = &now.session, .args = watch->args };
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
    free(now.job.device);
    session_close(&now.session);
    return result ? STATUS_FAILED : STATUS_DONE;
}
