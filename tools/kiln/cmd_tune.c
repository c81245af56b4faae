/* kiln tune: finds the fastest geometry of each spec. Each device has a thread; devices of one model share the list of
 * specs, and each model tunes all of it. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "commands.h"
#include "kernels/crash.h"
#include "text/format.h"
#include "text/spectext.h"
#include "text/table.h"
#include "tune/sandbox.h"

enum { MOST_ROWS = 10, HANG_S = 20, CEILING_ROUNDS = 10 };

typedef struct tune_args {
    text_list specs;
    arg_texts texts;
    const char *csv, *plot;
    uint32_t budget, hang;
    bool hot, all, no_learn, sandbox, no_sandbox;
    const char *devices; /* a list, or NULL */
    common_args common;
} tune_args;

typedef struct tune_device {
    const char *name; /* NULL: the service's default one */
    size_t model;
} tune_device;

typedef struct tune_spec {
    const char *text; /* canonical */
    bool boxed;       /* tuned in a sandbox */
    const char *question;
} tune_spec;

struct tune_crew;

typedef struct tune_worker {
    struct tune_crew *crew;
    const tune_device *device;
    tune_view *view;
    sandbox box;
    bool busy; /* guarded by the lock */
} tune_worker;

typedef struct tune_crew {
    struct session *session;
    const tune_args *args;
    tune_device *devices;
    size_t device_count, model_count;
    tune_spec *specs;
    size_t spec_count;
    int status; /* of the command */
    struct variants variants;
    json_t *printed; /* the results, with --json */

    /* Guarded by the lock while workers run */
    tune_worker *workers;
    json_t **results; /* of spec s for model m: s * models + m */
    size_t *next;     /* of each model: the spec that is to be tuned next */
    size_t working;   /* workers that have not ended */
    size_t done;
    bool closing; /* nothing more is begun */
    pthread_mutex_t lock;
    pthread_cond_t changed;
} tune_crew;

static const struct usage usage = {
    "kiln tune SPEC... [--size N|NAME=N]... [--arg NAME=VALUE]... [--budget SECONDS] [--hot] [--all]\n"
    "                 [--no-learn] [--sandbox|--no-sandbox] [--csv FILE] [--plot PICTURE] [options]",
    "Finds the fastest geometry of each spec: compiles the variants that its open fields allow, checks the result\n"
    "of each against the cpu backend, bit for bit or within the bounds of its functions, and times them against\n"
    "each other until no other can be more than 0.5% faster than the winner. Ctrl-C ends it with the results so\n"
    "far. The arrays do not fit into the caches, unless --hot lets them. Fields may be lists: dtype=f32,f16 tunes\n"
    "both. The winner is kept as wisdom: specs that leave their geometry open take it from then on. FILE.cu is a\n"
    "user-defined template. If its arrays are not all of one size, each of its sizes and each number that is\n"
    "given at launch needs a value. Its variants are checked against its cpu twin, or against each other.\n"
    "\n"
    "--device may be a list, or all: devices of one model share the specs, each model tunes all of them. A\n"
    "user-defined template is tuned in a separate process, because it may crash, or break the device: that\n"
    "process is started again without the variant that did so, eight times at most. --sandbox does so for all\n"
    "specs, --no-sandbox for none.",
    "  kiln tune 'op=hardsigmoid dtype=f32' --size 4096x393216\n"
    "  kiln tune 'op=add dtype=f16,bf16' --budget 5\n"
    "  kiln tune 'op=relu6,hardtanh dtype=f32,f16' --device all\n"
    "  kiln tune transpose.cu --size rows=8192 --size cols=4096",
};

static void parse_args(tune_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_LIST, "N|NAME=N",
          "elements of each array, default 2^26 on a GPU, 2^22 on the cpu; or a size", &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a scalar of the op, or a number of a template", &args->texts.numbers },
        { "budget", 'b', OPTION_NUMBER, "SECONDS", "end after so long; default 30", &args->budget },
        { "hot", 0, OPTION_FLAG, NULL, "let the arrays stay in the caches", &args->hot },
        { "all", 'a', OPTION_FLAG, NULL, "print every variant, not the fastest ten", &args->all },
        { "no-learn", 0, OPTION_FLAG, NULL, "do not keep the winner as wisdom", &args->no_learn },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each variant, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw the speeds; FILE.svg, FILE.png or FILE.pdf", &args->plot },
        { "sandbox", 0, OPTION_FLAG, NULL, "tune in a separate process; default for user-defined templates",
          &args->sandbox },
        { "no-sandbox", 0, OPTION_FLAG, NULL, "tune in this process; default for Kiln's templates", &args->no_sandbox },
        { "hang", 0, OPTION_NUMBER, "SECONDS", "in a sandbox: a launch that takes longer hangs; default 20",
          &args->hang },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    words_specs(&args->specs, &usage, &words, 0);
    if (args->sandbox && args->no_sandbox)
        options_refuse(&usage, "--sandbox and --no-sandbox exclude each other");
    if (args->hang && args->no_sandbox)
        options_refuse(&usage, "--hang and --no-sandbox exclude each other: only a separate process can be ended");
    results_check(&usage, args->csv, args->plot, args->common.json);
    const char *devices = args->common.device;
    if (devices && (strchr(devices, ',') || strcmp(devices, "all") == 0)) {
        args->devices = devices;
        args->common.device = NULL; /* each job names its device */
    }
    args->hang = args->hang ? args->hang : HANG_S;
}

/* ---- Specs */

/* A search for the template that a spec names. */
typedef struct template_search {
    const char *name;
    bool own; /* it is user-defined */
} template_search;

static int find_own(void *data, const kiln_template_info *info)
{
    template_search *search = data;
    search->own = search->own || (*info->origin && strcmp(info->name, search->name) == 0);
    return 0;
}

static bool wants_sandbox(const tune_crew *crew, const char *spec)
{
    template_search search = { spectext_field(spec, "template"), false };
    if (crew->args->sandbox || crew->args->no_sandbox)
        return crew->args->sandbox;
    if (search.name)
        kiln_templates(crew->session->service, find_own, &search);
    return search.own;
}

static int add_spec(void *data, const kiln_spec *spec)
{
    tune_crew *crew = data;
    arg_values values = { .size_count = 0 };
    const char *problem = argvalues_read(&values, spec, &crew->args->texts);
    if (problem) {
        crew->status = options_wrong(&usage, "%s", problem);
        return 1;
    }
    const char *text = need_copy(kiln_spec_text(spec));
    crew->specs = need_array(crew->specs, crew->spec_count + 1, sizeof(*crew->specs));
    crew->specs[crew->spec_count++] =
        (tune_spec){ text, wants_sandbox(crew, text), crash_question(crew->session->service, spec) };
    return 0;
}

/* ---- Devices */

static void add_device(tune_crew *crew, const char *name)
{
    crew->devices = need_array(crew->devices, crew->device_count + 1, sizeof(*crew->devices));
    crew->devices[crew->device_count++] = (tune_device){ .name = name };
}

static int add_named(tune_crew *crew, const char *names)
{
    for (char *rest = need_copy(names), *name; (name = strsep(&rest, ","));) {
        for (size_t i = 0; i < crew->device_count; i++)
            if (strcmp(crew->devices[i].name, name) == 0)
                return fail(STATUS_USAGE, "--device %s names %s twice", names, name);
        add_device(crew, name);
    }
    return STATUS_DONE;
}

/* Every GPU that the driver shows. */
static int add_all(tune_crew *crew)
{
    kiln_status status = KILN_OK;
    for (int i = 0; !status; i++) {
        kiln_device *device = NULL;
        const char *name = need_format("cuda:%d", i);
        status = kiln_device_open(&device, crew->session->service, name, &crew->session->report);
        if (!status)
            add_device(crew, name);
    }
    if (status != KILN_ENODEVICE)
        return session_status(crew->session, status, NULL);
    if (crew->device_count == 0)
        return fail(STATUS_FAILED, "--device all: the driver shows no GPU; see nvidia-smi, or use --device cpu");
    return STATUS_DONE;
}

/* Devices of one model find the same. */
static int find_models(tune_crew *crew)
{
    kiln_device_info *infos = need_array(NULL, crew->device_count, sizeof(*infos));
    kiln_status status = KILN_OK;
    crew->model_count = 0;
    for (size_t i = 0; i < crew->device_count && !status; i++) {
        kiln_device *device = NULL;
        size_t same = 0;
        status = session_device(&device, &infos[i], crew->session, crew->devices[i].name);
        if (status)
            break;
        while (same < i && (strcmp(infos[same].model, infos[i].model) != 0 ||
                            infos[same].multiprocessors != infos[i].multiprocessors))
            same++;
        crew->devices[i].model = same < i ? crew->devices[same].model : crew->model_count++;
    }
    return session_status(crew->session, status, NULL);
}

/* One name is the service's default device, which is opened when it is first used. */
static int find_devices(tune_crew *crew)
{
    const char *names = crew->args->devices;
    crew->model_count = 1;
    if (!names) {
        add_device(crew, NULL);
        return STATUS_DONE;
    }
    int status = strcmp(names, "all") == 0 ? add_all(crew) : add_named(crew, names);
    return status ? status : find_models(crew);
}

/* ---- Workers */

static void *run_worker(void *data)
{
    tune_worker *self = data;
    tune_crew *crew = self->crew;
    const tune_args *args = crew->args;
    size_t model = self->device->model;
    tune_result found;
    pthread_mutex_lock(&crew->lock);
    while (!crew->closing && !interrupt_seen() && crew->next[model] < crew->spec_count) {
        size_t number = crew->next[model]++;
        const tune_spec *spec = &crew->specs[number];
        const tune_job job = { .spec = spec->text,
                               .device = self->device->name,
                               .texts = args->texts,
                               .budget = args->budget,
                               .hot = args->hot,
                               .no_learn = args->no_learn,
                               .question = spec->question };
        if (!spec->boxed)
            crash_watch(spec->question);
        memset(self->view, 0, sizeof(*self->view));
        self->busy = true;
        pthread_mutex_unlock(&crew->lock);
        json_t *result = spec->boxed ? sandbox_tune(&self->box, &job, self->view)
                                     : tune_here(crew->session->service, &job, self->view);
        bool failed = !tune_read(&found, result) || found.status;
        pthread_mutex_lock(&crew->lock);
        crew->results[number * crew->model_count + model] = result;
        crew->done++;
        crew->closing = crew->closing || failed;
        self->busy = false;
        pthread_cond_signal(&crew->changed);
    }
    crew->working--;
    pthread_cond_signal(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* Seconds that a tuning may still take, by its budget; all of it before it has begun. */
static double left_of(const tune_view *view, double budget)
{
    double began = (double)atomic_load(&view->began_ms) / 1e3, now = (double)atomic_load(&view->now_ms) / 1e3;
    return began > 0 ? fmax(budget - (now - began), 0) : budget;
}

/* Seconds for the specs that are not begun: a model's devices take them in rounds. */
static double waiting_of(const tune_crew *crew, double budget)
{
    size_t most = 0;
    for (size_t m = 0; m < crew->model_count; m++) {
        size_t devices = 0;
        for (size_t i = 0; i < crew->device_count; i++)
            devices += crew->devices[i].model == m;
        size_t rounds = devices > 0 ? (crew->spec_count - crew->next[m] + devices - 1) / devices : 0;
        most = rounds > most ? rounds : most;
    }
    return (double)most * budget;
}

static char *describe_view(const tune_view *view)
{
    uint64_t ready = atomic_load(&view->ready), out = atomic_load(&view->out);
    return need_format("%" PRIu64 " of %" PRIu64 " variants checked, %" PRIu64 " out, %" PRIu64 " samples", ready + out,
                       (uint64_t)atomic_load(&view->variants), out, (uint64_t)atomic_load(&view->samples));
}

/* Shows the work in progress and an upper bound of its time: the budget, because a search can end before that. */
static void show_work(tune_crew *crew, struct progress *progress)
{
    double budget = crew->args->budget ? crew->args->budget : TUNE_BUDGET_S, left = 0;
    size_t all = crew->spec_count * crew->model_count, busy = 0;
    const tune_view *view = NULL;
    for (size_t i = 0; i < crew->device_count; i++)
        if (crew->workers[i].busy) {
            view = crew->workers[i].view;
            left = fmax(left, left_of(view, budget));
            busy++;
        }
    if (!view)
        return;
    const char *place = all > 1 ? need_format("%zu of %zu tuned, ", crew->done, all) : "";
    const char *now = busy > 1 ? need_format("%zu devices at work", busy) : describe_view(view);
    progress_say(progress, all > 1 ? (double)crew->done / (double)all : 1 - left / budget,
                 need_format("%s%s; at most %s left", place, now, format_clock(left + waiting_of(crew, budget))));
}

/* ---- Results */

/* The fields that all variants share. The spec leaves the others open: its space is that of the variants. */
static char *common_spec(const variant_group *group)
{
    char *text = need_copy("");
    for (char *rest = need_copy(group->rows[0].spec), *word; (word = strsep(&rest, " "));) {
        bool same = true;
        for (size_t i = 1; i < group->count && same; i++)
            same = spectext_has_all(group->rows[i].spec, word);
        if (same)
            text_append(&text, " ", "%s", word);
    }
    return text;
}

static int visit_gap(void *data, const kiln_variant *variant)
{
    variant_group *group = data;
    if (*variant->problem)
        variant_add_gap(&group->gaps, &group->gap_count, variant);
    return 0;
}

static kiln_status add_gaps(variant_group *group, struct session *session)
{
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, common_spec(group), &session->report);
    if (!status)
        status = kiln_variants(session->service, spec, visit_gap, group, &session->report);
    kiln_spec_free(spec);
    return status;
}

/* Sweeps the winner alone, beside which the copies are timed. */
static kiln_status measure_ceiling(variant_group *group, struct session *session, const tune_result *result)
{
    arg_values values = { .size_count = 0 };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning *tuning = NULL;
    kiln_spec *spec = NULL;
    const text_list winner = { &group->rows[0].spec, 1 };
    kiln_status status = kiln_spec_parse(&spec, session->service, group->rows[0].spec, &session->report);
    if (status)
        return status;
    bool flat = spec_is_flat(spec);
    argvalues_read(&values, spec, &result->values); /* as they were read before */
    kiln_spec_free(spec);
    if (flat)
        values.sizes[0] = result->elements;
    kiln_work work = argvalues_work(&values, flat);
    work.device = group->handle;
    options.work = &work;
    options.rounds = CEILING_ROUNDS;
    status = variants_sweep(&tuning, session, &winner, &options);
    if (!status)
        status = kiln_tuning_get_info(tuning, &info);
    if (!status)
        group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    kiln_tuning_free(tuning);
    return status;
}

/* Keeps the variants for the files. A user who has stopped the tuning does not wait for the ceiling. */
static int keep_variants(tune_crew *crew, const tune_result *result)
{
    if (!results_wanted(&crew->variants.results))
        return STATUS_DONE;
    variant_group *group = variants_begin(&crew->variants, crew->session, result->device);
    if (!group)
        return STATUS_FAILED;
    group->elements = result->elements;
    group->bytes = result->bytes;
    group->rows = result->rows;
    group->count = result->row_count;
    kiln_status status = group->count ? add_gaps(group, crew->session) : KILN_OK;
    if (!status && group->count && strcmp(result->end, "stopped") != 0)
        status = measure_ceiling(group, crew->session, result);
    return session_status(crew->session, status, NULL);
}

static void add_row(struct table *table, const variant_row *row)
{
    bool measured = row->ms > 0, compiled = row->registers >= 0 && !*row->problem;
    /* Infinity, which a few samples leave possible, is shown as 0. */
    double high = isfinite(row->high) ? row->high : 0;
    table_row(table,
              (const char *const[]){
                  spectext_geometry(row->spec), measured ? format_ms_plain(row->ms) : "",
                  measured ? need_format("%.1f", row->gbps) : "", measured ? need_format("%.4f", row->ratio) : "",
                  measured ? need_format("%.4f..%.4f", row->low, high) : "", measured ? format_count(row->samples) : "",
                  compiled ? need_format("%d", row->registers) : "", row->verdict, row->problem });
}

static void print_tuning(const tune_result *result, bool all)
{
    const arg_texts *values = &result->values;
    size_t count = result->row_count;
    const char *bound =
        result->regret >= 0 ? need_format("; at most %.2f%% slower than the best", result->regret * 100) : "";
    print_line("%s", result->spec);
    print_line("%s: %" PRIu64 " elements, %s read and written; %zu variants, %" PRIu64 " of them out, %" PRIu64
               " impossible; %s after %" PRIu64 " samples in %.2f s%s",
               result->device, result->elements, format_bytes(result->bytes), count, result->out, result->impossible,
               result->end, result->samples, result->seconds, bound);
    for (size_t i = 0; i < values->sizes.count; i++)
        printf("%s; ", values->sizes.items[i]);
    for (size_t i = 0; i < values->numbers.count; i++)
        printf("%s; ", values->numbers.items[i]);
    if (result->has_values || strcmp(result->against, "the cpu backend") != 0)
        printf("results agree with %s\n", result->against);
    struct table *table = table_new("geometry|>ms|>GB/s|>time / default|95%|>samples|>registers|verdict|problem");
    for (size_t i = 0; i < count && (all || i < MOST_ROWS); i++)
        add_row(table, &result->rows[i]);
    table_print(table, stdout);
    if (!all && count > MOST_ROWS)
        printf("and %zu more; --all prints them\n", count - MOST_ROWS);
    if (result->learnt)
        print_line("learnt: specs that leave their geometry open take it, from %s", result->wisdom);
    else
        print_line("not learnt: %s", result->not_learnt);
}

/* Prints a result, or keeps it for JSON. */
static void give_result(tune_crew *crew, json_t *object, bool first)
{
    tune_result result;
    tune_read(&result, object);
    if (result.status) {
        kiln_report report = KILN_INIT(kiln_report);
        snprintf(report.message, sizeof(report.message), "%s", result.message);
        report.log = (char *)(uintptr_t)result.log;
        crew->status = fail_report(result.status, &report, NULL);
        return;
    }
    if (crew->args->common.json) {
        json_add(crew->printed, object);
    } else {
        printf("%s", first ? "" : "\n");
        print_tuning(&result, crew->args->all);
        fflush(stdout);
    }
    if (crew->status == STATUS_DONE)
        crew->status = keep_variants(crew, &result);
}

/* Gives the results in the order of the specs and, for one spec, of the models, and waits for the rest. Returns with
 * the lock held, when no worker is left. */
static void attend(tune_crew *crew)
{
    size_t all = crew->spec_count * crew->model_count, next = 0;
    struct progress progress;
    progress_start(&progress, all, false);
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        for (; next < all && crew->results[next]; next++) {
            progress_end();
            give_result(crew, crew->results[next], next == 0);
            crew->closing = crew->closing || crew->status;
        }
        if (crew->working == 0)
            break;
        progress_wait(&crew->changed, &crew->lock);
        for (size_t i = 0; interrupt_seen() && i < crew->device_count; i++)
            if (crew->workers[i].busy)
                atomic_store(&crew->workers[i].view->stop, 1);
        show_work(crew, &progress);
    }
    progress_end();
    for (; next < all; next++) /* behind a spec that was not begun any more */
        if (crew->results[next])
            give_result(crew, crew->results[next], false);
}

/* Tunes everything. After an interrupt, a failure, or where a result could not be kept, no further spec is begun;
 * tunings at work end with the results so far after an interrupt, and as usual else. */
static void tune_all(tune_crew *crew)
{
    pthread_t *threads = need_array(NULL, crew->device_count, sizeof(*threads));
    crew->workers = need_alloc(crew->device_count * sizeof(*crew->workers));
    crew->results = need_alloc(crew->spec_count * crew->model_count * sizeof(*crew->results));
    crew->next = need_alloc(crew->model_count * sizeof(*crew->next));
    crew->working = crew->device_count;
    interrupt_catch(false);
    for (size_t i = 0; i < crew->device_count; i++) {
        tune_worker *self = &crew->workers[i];
        *self = (tune_worker){ crew, &crew->devices[i], NULL, { &crew->args->common, crew->args->hang, -1 }, false };
        self->view = sandbox_view(&self->box.view_fd);
        if (pthread_create(&threads[i], NULL, run_worker, self) != 0)
            exit(fail(STATUS_FAILED, "cannot start a thread"));
    }
    attend(crew);
    crash_forget();
    pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < crew->device_count; i++) {
        pthread_join(threads[i], NULL);
        sandbox_view_free(crew->workers[i].view, crew->workers[i].box.view_fd);
    }
    interrupt_release();
}

static int tune(struct session *session, void *data)
{
    tune_crew *crew = data;
    const tune_args *args = crew->args;
    kiln_status status = KILN_OK;
    crew->session = session;
    for (size_t i = 0; i < args->specs.count && !status && !crew->status; i++)
        status = kiln_spec_expand(session->service, args->specs.items[i], add_spec, crew, &session->report);
    if (status)
        crew->status = session_status(session, status, NULL);
    if (!crew->status)
        crew->status = find_devices(crew);
    if (!crew->status)
        tune_all(crew);
    if (args->common.json)
        json_print(json_new("results", crew->printed, NULL));
    if (!crew->status)
        crew->status = variants_write(&crew->variants);
    return crew->status;
}

int command_tune(int argc, char **argv)
{
    tune_args args = { .csv = NULL };
    if (argc > 1 && strcmp(argv[1], SANDBOX_FLAG) == 0)
        return sandbox_child();
    parse_args(&args, argc, argv);
    tune_crew crew = {
        .args = &args, .printed = json_array(), .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER
    };
    int status = results_open(&crew.variants.results, args.csv, args.plot);
    if (!status)
        status = session_run(&args.common, tune, &crew);
    results_close(&crew.variants.results);
    if (interrupt_seen())
        status = fail(interrupt_status(), "interrupted: not everything was tuned");
    return status;
}
