/* The public functions of <kiln/tune.h>: tuning, workloads, live handles and wisdom. */
#include "api/structs.h"
#include "base/alloc.h"
#include "base/fpenv.h"
#include "os/file.h"
#include "os/trust.h"
#include "service/service.h"
#include "service/share.h"
#include "tune/live.h"
#include "tune/measure.h"
#include "tune/space.h"
#include "tune/tuner.h"
#include "tune/verify.h"
#include "wisdom/describe.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { MEASURE_WARMUP = 2, MEASURE_ROUNDS = 30 };

/* Completes the host's work. KILN_EINVAL as kiln__take_in. */
static kiln_status take_work(kiln_work *full, const kiln_work *work, kiln_report *report)
{
    *full = (kiln_work)KILN_INIT(kiln_work);
    return kiln__take_in(full, sizeof(*full), work, "kiln_work", KILN__STAGE_DEVICE, report);
}

/* ---- Tuning */

/* Completes the host's tuning options, and in `work` the work that they name from then on. */
static kiln_status take_tune_options(kiln_tune_options *full, kiln_work *work, const kiln_tune_options *options,
                                     kiln_report *report)
{
    *full = (kiln_tune_options)KILN_INIT(kiln_tune_options);
    kiln_status status = kiln__take_in(full, sizeof(*full), options, "kiln_tune_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK)
        status = take_work(work, full->work, report);
    if (status != KILN_OK)
        return status;
    full->work = work;
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, full->learn >= KILN_DEFAULT && full->learn <= KILN_OFF,
                  "kiln_tune_options.learn must be KILN_DEFAULT, KILN_ON or KILN_OFF");
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, full->budget_s >= 0 && full->budget_s <= KILN__TUNE_BUDGET_MAX_S,
                  "kiln_tune_options.budget_s must be between 0 and 1000000 seconds");
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, full->tolerance >= 0 && full->tolerance <= 1,
                  "kiln_tune_options.tolerance must be between 0 and 1, a fraction such as 0.005");
    for (size_t i = 0; i < full->skip_count; i++)
        KILN__REQUIRE(report, KILN__STAGE_DEVICE,
                      full->skip != NULL && full->skip[i].spec != NULL && full->skip[i].reason != NULL,
                      "kiln_tune_options.skip: expected skip_count elements, each with a spec and a reason");
    return KILN_OK;
}

kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec, const kiln_tune_options *options,
                      kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, service, service != NULL && spec != NULL,
                    "service and spec must not be NULL");
    kiln_tune_options full;
    kiln_work work;
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    kiln_status status = take_tune_options(&full, &work, options, report);
    if (status == KILN_OK)
        status = kiln__tuning_make(out, service, &spec->fields, &full, report);
    kiln__fpenv_leave(&host);
    return status;
}

void kiln_tuning_free(kiln_tuning *tuning)
{
    kiln__tuning_free(tuning);
}

kiln_status kiln_tuning_get_info(const kiln_tuning *tuning, kiln_tuning_info *out)
{
    if (tuning == NULL || out == NULL)
        return KILN_EINVAL;
    return kiln__hand_out(out, &tuning->info, sizeof(tuning->info));
}

/* The host's visitor of a space, and of the geometries that are not in it. */
typedef struct space_visitor {
    kiln_variant_fn fn;
    void *data;
    bool stop, failed; /* failed: out of memory */
} space_visitor;

static int show_variant(void *data, const kiln__fields *spec, const char *why)
{
    space_visitor *self = data;
    kiln__text text = { 0 };
    kiln__spec_format(spec, false, &text);
    kiln_variant variant = { .size = sizeof(variant), .spec = kiln__text_string(&text), .problem = why };
    self->failed = text.failed;
    self->stop = self->failed || self->fn(self->data, &variant) != 0;
    kiln__text_fini(&text);
    return self->stop;
}

static kiln_status visit_space(space_visitor *self, const kiln__fields *spec, const kiln__target *target,
                               kiln_report *report)
{
    kiln__space space;
    kiln_status status = kiln__space_make(&space, spec, target, report);
    for (size_t i = 0; status == KILN_OK && i < space.count && !self->stop; i++) {
        kiln__fields full;
        kiln__space_spec(&space, i, &full);
        show_variant(self, &full, "");
    }
    kiln__space_fini(&space);
    if (status == KILN_OK && !self->stop)
        status = kiln__space_visit_impossible(spec, target, show_variant, self, report);
    return self->failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : status;
}

kiln_status kiln_variants(kiln_service *service, const kiln_spec *spec, kiln_variant_fn fn, void *data,
                          kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service, service != NULL && spec != NULL && fn != NULL,
                "service, spec and fn must not be NULL");
    space_visitor self = { .fn = fn, .data = data };
    kiln__fields full, chosen = spec->fields;
    kiln_status status = kiln__service_resolve(service, NULL, &spec->fields, &full, report);
    if (status == KILN_OK)
        status = kiln__service_choose_template(NULL, &full.target, &chosen, report);
    return status == KILN_OK ? visit_space(&self, &chosen, &full.target, report) : status;
}

/* Why the specs cannot be swept, or NULL. */
static const char *find_null(const kiln_spec *const *specs, size_t count)
{
    if (specs == NULL || count == 0)
        return "there are no specs: expected at least one";
    for (size_t i = 0; i < count; i++)
        if (specs[i] == NULL)
            return "one of the specs is NULL";
    return count > KILN__SWEEP_SPECS_MAX ? "there are more than 65536 specs" : NULL;
}

kiln_status kiln_sweep(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                       const kiln_sweep_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, service, service != NULL, "service must not be NULL");
    kiln_sweep_options full = KILN_INIT(kiln_sweep_options);
    kiln_work work;
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_sweep_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK)
        status = take_work(&work, full.work, report);
    if (status != KILN_OK)
        return status;
    full.work = &work;
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, full.rounds <= KILN__SWEEP_ROUNDS_MAX,
                  "kiln_sweep_options.rounds must be at most 100000");
    const char *problem = find_null(specs, count);
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, problem == NULL, problem);
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    status = kiln__sweep_make(out, service, specs, count, &full, report);
    kiln__fpenv_leave(&host);
    return status;
}

kiln_status kiln_measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                         const kiln_measure_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_measure_options full = KILN_INIT(kiln_measure_options);
    kiln_status status =
        kiln__take_in(&full, sizeof(full), options, "kiln_measure_options", KILN__STAGE_DEVICE, report);
    if (device != NULL && kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    if (full.warmup == 0)
        full.warmup = MEASURE_WARMUP;
    if (full.rounds == 0)
        full.rounds = MEASURE_ROUNDS;
    return status == KILN_OK ? kiln__measure(out, device, contenders, count, &full, report) : status;
}

kiln_status kiln_fill(kiln_device *device, void *to, const char *dtype, uint64_t n, uint64_t seed, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_DEVICE, device, device != NULL && dtype != NULL && (to != NULL || n == 0),
                "device, to and dtype must not be NULL");
    kiln__dtype type = kiln__dtype_parse(dtype, strlen(dtype));
    if (type == KILN__DTYPE_UNSET)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_DEVICE, 0, "unknown dtype '%.40s': f32, f64, f16 or bf16",
                          dtype);
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, n <= (uint64_t)PTRDIFF_MAX / kiln__dtype_bytes(type),
                  "n is larger than any memory");
    return kiln__fill_random(device, to, type, n, seed, report);
}

/* ---- Workloads */

kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln_work *work,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, service, service != NULL && kernel != NULL,
                    "service and kernel must not be NULL");
    if (kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln_work full;
    kiln_status status = take_work(&full, work, report);
    return status == KILN_OK ? kiln__workload_make(out, service, kernel, &full, report) : status;
}

void kiln_workload_free(kiln_workload *workload)
{
    KILN__NO_CANCEL;
    if (workload != NULL && !kiln__is_forked(workload->kernel->generation))
        kiln__workload_free(workload);
}

kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out)
{
    if (workload == NULL || out == NULL)
        return KILN_EINVAL;
    const kiln__load *load = &workload->arrays.load;
    const kiln_workload_info full = { .size = sizeof(full),
                                      .elements = load->elements,
                                      .bytes = load->bytes,
                                      .args = workload->args,
                                      .arg_count = load->arg_count,
                                      .sizes = load->sizes,
                                      .size_count = load->size_count };
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_workload_reset(kiln_workload *workload, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_DEVICE, workload->kernel, workload != NULL, "workload must not be NULL");
    return kiln__workload_reset(workload, report);
}

kiln_status kiln_verify(kiln_verification *out, kiln_service *service, kiln_kernel *kernel, const kiln_grid *grid,
                        const uint64_t *sizes, size_t size_count, const kiln_arg *args, size_t arg_count,
                        const kiln_tolerance *tolerance, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_DEVICE, service,
                service != NULL && kernel != NULL && (sizes != NULL || size_count == 0) &&
                    (args != NULL || arg_count == 0),
                "service, kernel, sizes and args must not be NULL");
    kiln_grid full;
    kiln_tolerance bounds = KILN_INIT(kiln_tolerance);
    kiln__load load;
    kiln__verdict verdict;
    kiln_status status =
        kiln__take_in(&bounds, sizeof(bounds), tolerance, "kiln_tolerance", KILN__STAGE_DEVICE, report);
    if (status != KILN_OK)
        return status;
    KILN__REQUIRE_OWN(report, KILN__STAGE_DEVICE, kernel, kiln__tolerance_is_valid(&bounds),
                      "the bounds of kiln_tolerance must be finite and 0 or more");
    status = kiln__take_grid(&full, kernel, grid, size_count, report);
    const kiln_work work = { .sizes = sizes, .size_count = size_count, .args = args, .arg_count = arg_count };
    if (status == KILN_OK)
        status = kiln__verify_launch(&verdict, &load, service, kernel, &full, &work, tolerance != NULL ? &bounds : NULL,
                                     report);
    if (status != KILN_OK)
        return status;
    const kiln_verification found = { .size = sizeof(found),
                                      .against = verdict.against,
                                      .compared = verdict.compared,
                                      .wrong = verdict.wrong,
                                      .argument = verdict.array != NULL ? load.at[verdict.array - load.arrays] : 0,
                                      .first = verdict.first,
                                      .bound = verdict.bound,
                                      .worst = verdict.worst,
                                      .worst_at = verdict.worst_at,
                                      .ulp = verdict.tolerance.ulp,
                                      .relative = verdict.tolerance.relative,
                                      .absolute = verdict.tolerance.absolute,
                                      .bounded = verdict.bounded };
    status = kiln__hand_out(out, &found, sizeof(found));
    return status == KILN_OK ? kiln__verify_refuse(&verdict, kernel->spec, report) : status;
}

/* ---- Live handles */

kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                           const kiln_live_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, service, service != NULL && spec != NULL,
                    "service and spec must not be NULL");
    kiln_live_options full = KILN_INIT(kiln_live_options);
    kiln_tune_options tuning = KILN_INIT(kiln_tune_options);
    kiln_work work;
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_live_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK && full.tune != NULL)
        status = take_tune_options(&tuning, &work, full.tune, report);
    if (status != KILN_OK)
        return status;
    /* They belong to the thread and the memory of a host that waits for its tuning. */
    KILN__REQUIRE(report, KILN__STAGE_DEVICE,
                  tuning.trying == NULL && tuning.skip == NULL && tuning.skip_count == 0 && tuning.suspect == NULL,
                  "kiln_live_options.tune: trying, skip and suspect must not be set for a live handle");
    return kiln__live_open(out, service, spec, &full, full.tune != NULL ? &tuning : NULL, report);
}

kiln_kernel *kiln_live_kernel(const kiln_live *live)
{
    return live != NULL ? atomic_load_explicit(&live->now, memory_order_acquire) : NULL;
}

kiln_status kiln_live_get_info(const kiln_live *live, kiln_live_info *out)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(NULL, KILN__STAGE_DEVICE, live, live != NULL && out != NULL, "");
    kiln_live_info full;
    kiln__live_info((kiln_live *)(uintptr_t)live, &full); /* only the lock changes */
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_DEVICE, live != NULL, "live must not be NULL");
    KILN__REQUIRE_OWN(report, KILN__STAGE_DEVICE, live, (unsigned)state <= KILN_LIVE_SETTLED,
                      "no state to wait for: expected one from KILN_LIVE_PENDING to KILN_LIVE_SETTLED");
    return kiln__live_wait(live, state, timeout_ms, report);
}

void kiln_live_close(kiln_live *live)
{
    KILN__NO_CANCEL;
    if (live != NULL && !kiln__is_forked(live->generation))
        kiln__live_close(live);
}

/* ---- Wisdom */

typedef struct wisdom_visitor {
    kiln_wisdom_fn fn;
    void *data;
} wisdom_visitor;

static int show_record(void *data, const kiln__wisdom_item *item)
{
    const wisdom_visitor *self = data;
    kiln_wisdom_record record = kiln__wisdom_public_record(item);
    return self->fn(self->data, &record);
}

kiln_status kiln_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(NULL, KILN__STAGE_STORE, service, service != NULL && fn != NULL, "");
    wisdom_visitor self = { fn, data };
    return kiln__wisdom_visit(service->wisdom, show_record, &self);
}

typedef struct explainer {
    kiln_wisdom_candidate_fn fn; /* may be NULL */
    void *data;
    const char *refusal; /* of all records, if wisdom is not asked; else NULL */
} explainer;

static int explain_candidate(void *data, const kiln_wisdom_candidate *candidate)
{
    const explainer *self = data;
    kiln_wisdom_candidate shown = *candidate;
    if (self->refusal != NULL) {
        shown.refusal = self->refusal;
        shown.chosen = 0;
    }
    return self->fn != NULL ? self->fn(self->data, &shown) : candidate->chosen;
}

kiln_status kiln_wisdom_explain(char **out, kiln_service *service, const kiln_spec *spec, const char *model,
                                kiln_wisdom_candidate_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_STORE, service, service != NULL && spec != NULL,
                    "service and spec must not be NULL");
    explainer self = { fn, data, NULL };
    kiln__fields chosen = spec->fields, full;
    kiln_device *on = NULL;
    kiln__target target;
    kiln__wisdom_device device;
    kiln__wisdom_choice choice;
    kiln__text text = { 0 };
    if (!service->wise)
        self.refusal = "wisdom is switched off";
    else if (!kiln__wisdom_is_open(&spec->fields))
        self.refusal = "the spec sets all of it";
    kiln_status status = kiln__service_target(service, &on, &spec->fields, &target, report);
    if (status == KILN_OK)
        status = kiln__service_choose_template(on, &target, &chosen, report);
    if (status != KILN_OK)
        return status;
    const kiln__fields asked = chosen;
    kiln__geometry_device(service, on, &target, &spec->fields, &device);
    if (model != NULL)
        device = (kiln__wisdom_device){ .model = model, .target = target.name };
    const kiln__wisdom_query query = { .spec = &asked, .device = &device, .toolchain = "" };
    status = kiln__wisdom_explain(service->wisdom, &query, &choice, explain_candidate, &self, report);
    if (status == KILN_OK && choice.found && self.refusal == NULL)
        kiln__wisdom_apply(&choice, &chosen);
    if (status == KILN_OK)
        status = kiln__spec_resolve(&full, &chosen, &target, report);
    if (status != KILN_OK)
        return status;
    kiln__spec_format(&full, false, &text);
    *out = kiln__text_take(&text);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

static kiln_status refuse_file(const char *path, const char *what, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "%s: %s", path, what);
}

/* The file's bytes, which the caller frees also after a failure. */
static kiln_status read_file(const char *path, unsigned trust, void **bytes, size_t *length, kiln_report *report)
{
    struct stat status;
    char buffer[KILN__WISDOM_REASON];
    int error = kiln__file_read(bytes, length, AT_FDCWD, path, 0, KILN__WISDOM_FILE_MAX, &status);
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    unsigned rule = KILN__TRUST_SHARED | trust;
    const char *reason = status.st_mode != 0 ? kiln__trust_refuse_file(&status, rule, buffer, sizeof(buffer)) : NULL;
    if (reason != NULL)
        return refuse_file(path, reason, report);
    if (error == -EFBIG)
        return refuse_file(path, "it is too large for a file of wisdom", report);
    return error != 0 ? refuse_file(path, strerrordesc_np(-error), report) : KILN_OK;
}

/* Joins a file's records to the set. */
static kiln_status read_records(const char *path, unsigned trust, kiln__wisdom_set *set, kiln_report *report)
{
    void *bytes = NULL;
    size_t length = 0;
    kiln__wisdom_set found = { 0 };
    char problem[KILN__WISDOM_REASON];
    kiln_status status = read_file(path, trust, &bytes, &length, report);
    if (status == KILN_OK) {
        kiln__wisdom_fault fault = kiln__wisdom_read(&found, bytes, length, problem);
        if (fault == KILN__WISDOM_OUT_OF_MEMORY)
            status = kiln__fail_memory(report, KILN__STAGE_STORE);
        else if (fault != KILN__WISDOM_GOOD)
            status = refuse_file(path, problem, report);
    }
    if (status == KILN_OK && set->count + found.count > KILN__WISDOM_RECORDS_MAX)
        status = refuse_file(path, "with it there are too many records for one import", report);
    if (status == KILN_OK && !kiln__wisdom_set_join(set, &found))
        status = kiln__fail_memory(report, KILN__STAGE_STORE);
    kiln__wisdom_set_fini(&found);
    kiln__free(bytes);
    return status;
}

/* Adds a set to the wisdom that is known, and fails if it cannot be stored. */
static kiln_status add_records(kiln_service *service, const kiln__wisdom_set *set, kiln_wisdom_tally *out,
                               kiln_report *report)
{
    kiln__wisdom_outcome outcome;
    kiln_status status = kiln__wisdom_add_set(service->wisdom, set, &outcome, report);
    if (status == KILN_OK && !outcome.stored)
        status = kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, 0, "wisdom in %s cannot be stored: %s",
                            service->cache_dir, outcome.problem);
    if (status == KILN_OK) {
        out->added = outcome.tally.added;
        out->replaced = outcome.tally.replaced;
        out->present = outcome.tally.equal;
        out->kept = outcome.tally.older_kept;
    }
    return status;
}

kiln_status kiln_wisdom_import(kiln_service *service, const char *const *paths, size_t count, kiln_wisdom_tally *out,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_STORE, service != NULL && paths != NULL, "service and paths must not be NULL");
    KILN__REQUIRE_OWN(report, KILN__STAGE_STORE, service, out == NULL || out->size >= sizeof(out->size),
                      "kiln_wisdom_tally.size is not set");
    kiln_wisdom_tally full = KILN_INIT(kiln_wisdom_tally);
    kiln__wisdom_set set = { 0 };
    kiln_status status = KILN_OK;
    if (service->disk == NULL)
        status = kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "no cache directory is in use%s%s",
                            service->cache_problem[0] != '\0' ? ": " : "", service->cache_problem);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        status = read_records(paths[i], service->store_counters.trust, &set, report);
    if (status == KILN_OK && set.count > 0)
        status = add_records(service, &set, &full, report);
    kiln__wisdom_set_fini(&set);
    kiln__hand_out(out, &full, sizeof(full));
    return status;
}

typedef kiln_status (*share_wisdom)(kiln_service *service, kiln__wisdom_counts *out, kiln_report *report);

static kiln_status share(share_wisdom how, kiln_service *service, kiln_wisdom_tally *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_STORE, service != NULL, "service must not be NULL");
    KILN__REQUIRE_OWN(report, KILN__STAGE_STORE, service, out == NULL || out->size >= sizeof(out->size),
                      "kiln_wisdom_tally.size is not set");
    kiln__wisdom_counts counts;
    const kiln_status status = how(service, &counts, report);
    const kiln_wisdom_tally full = { .size = sizeof(full),
                                     .added = counts.added,
                                     .replaced = counts.replaced,
                                     .present = counts.equal,
                                     .kept = counts.older_kept };
    kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_wisdom_pull(kiln_service *service, kiln_wisdom_tally *out, kiln_report *report)
{
    return share(kiln__share_pull, service, out, report);
}

kiln_status kiln_wisdom_push(kiln_service *service, kiln_wisdom_tally *out, kiln_report *report)
{
    return share(kiln__share_push, service, out, report);
}

typedef struct exporter {
    kiln_wisdom_fn keep;
    void *data;
    kiln__wisdom_set set;
    kiln__wisdom_fate fate;
} exporter;

/* Of records about the same the first comes from the nearest source. */
static int export_record(void *data, const kiln__wisdom_item *item)
{
    exporter *self = data;
    kiln_wisdom_record record = kiln__wisdom_public_record(item);
    bool wanted = self->keep != NULL ? self->keep(self->data, &record) != 0 : item->source == KILN__WISDOM_OWN;
    if (wanted && !kiln__wisdom_set_has(&self->set, item->record))
        self->fate = kiln__wisdom_set_add(&self->set, item->record);
    return self->fate != KILN__WISDOM_ADDED;
}

kiln_status kiln_wisdom_export(char **out, kiln_service *service, kiln_wisdom_fn keep, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_STORE, service, service != NULL, "service must not be NULL");
    exporter self = { .keep = keep, .data = data };
    kiln__text text = { 0 };
    bool visited = kiln__wisdom_visit(service->wisdom, export_record, &self) == KILN_OK;
    if (visited && self.fate == KILN__WISDOM_ADDED)
        kiln__wisdom_write(&self.set, &text);
    kiln__wisdom_set_fini(&self.set);
    if (visited && self.fate == KILN__WISDOM_FULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0,
                          "more than %d records for one file: export those of one device at a time",
                          KILN__WISDOM_RECORDS_MAX);
    *out = visited && self.fate == KILN__WISDOM_ADDED ? kiln__text_take(&text) : NULL;
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_STORE);
}
