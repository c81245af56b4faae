#include "tune/sweep.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "tune/progress.h"
#include "tune/ranking.h"
#include "tune/turn.h"
#include <string.h>

enum { WAIT_MS = 20, ROUNDS = 30 };

typedef struct sweep {
    kiln_service *service;
    const kiln_sweep_options *options;
    kiln_report *report;
    kiln_device *device;
    kiln__fields *specs; /* resolved; their ops are those of the host's */
    size_t count;
    kiln__load load;
    uint32_t rounds; /* to be played */
    kiln__contest contest;
    kiln__ceiling ceiling;
    size_t *columns, column_count; /* of the times: those that are timed, in the order of the round */
    kiln__times times;
    uint64_t random;
    kiln_tuning *tuning;
    kiln__progress progress;
    bool stop;
} sweep;

static void tell(sweep *self)
{
    self->stop |= kiln__progress_tell(&self->progress);
}

/* ---- What is asked for */

/* What all specs of a sweep have in common: what they compute, from how many arrays, and where. */
static bool write_kind(const kiln__fields *spec, kiln__text *out)
{
    if (!kiln__template_takes_op(spec->template)) {
        kiln__text_printf(out, "template=%s", spec->template->name);
    } else {
        kiln__text_printf(out, "op=");
        kiln__spec_value(spec, "op", out);
    }
    kiln__text_printf(out, " inputs=%u dtype=%s target=%s", (unsigned)kiln__spec_inputs(spec),
                      kiln__dtype_name(spec->dtype), spec->target.name);
    return !out->failed;
}

static kiln_status check_kind(const kiln__fields *first, const kiln__fields *spec, kiln_report *report)
{
    kiln__text wanted = { 0 }, got = { 0 };
    kiln_status status = KILN_OK;
    if (!write_kind(first, &wanted) || !write_kind(spec, &got))
        status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    else if (strcmp(wanted.data, got.data) != 0)
        status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                            "%s beside %s: the specs of a sweep have one op, or one template without an op, and "
                            "one dtype and target",
                            got.data, wanted.data);
    kiln__text_fini(&wanted);
    kiln__text_fini(&got);
    return status;
}

static kiln_status take_spec(sweep *self, const kiln__fields *given, size_t index)
{
    kiln_status status = KILN_OK;
    if (index == 0)
        status = kiln__tuning_device(&self->device, self->service, self->options->work->device, given, self->report);
    if (status == KILN_OK)
        status = kiln__service_resolve(self->service, self->device, given, &self->specs[index], self->report);
    if (status == KILN_OK)
        status = kiln__service_check_target(self->device, &self->specs[index].target, self->report);
    return status == KILN_OK ? check_kind(&self->specs[0], &self->specs[index], self->report) : status;
}

static kiln_status take_specs(sweep *self, const kiln_spec *const *specs)
{
    kiln_status status = KILN_OK;
    self->specs = kiln__calloc(self->count, sizeof(*self->specs));
    if (self->specs == NULL)
        return kiln__fail_memory(self->report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->count && status == KILN_OK; i++)
        status = take_spec(self, &specs[i]->fields, i);
    if (status != KILN_OK)
        return status;
    const kiln_work *work = self->options->work;
    const kiln__given given = { .elements = kiln__tuning_elements(work, &specs[0]->fields, self->device),
                                .sizes = work->sizes,
                                .size_count = work->size_count,
                                .args = work->args,
                                .arg_count = work->arg_count };
    return kiln__workload_make(&self->load, &self->specs[0], &given, self->report);
}

static void describe(sweep *self)
{
    kiln_tuning *tuning = self->tuning;
    kiln__text_copy(tuning->device, sizeof(tuning->device), self->device->name);
    tuning->info = (kiln_tuning_info){ .size = sizeof(tuning->info),
                                       .device = tuning->device,
                                       .elements = self->load.elements,
                                       .bytes = self->load.bytes,
                                       .variants = self->count,
                                       .regret = -1,
                                       .end = "",
                                       .wisdom = "",
                                       .not_learnt = "",
                                       .verified_by = "" };
    self->progress.info = &tuning->info;
}

/* ---- Compiling and checking */

static bool is_gathered(const kiln__contest *contest)
{
    for (size_t i = 0; i < contest->count; i++)
        if (contest->variants[i].state == KILN__VARIANT_WAITING)
            return false;
    return true;
}

static kiln_status gather(sweep *self)
{
    kiln_status status = KILN_OK;
    while (status == KILN_OK && !self->stop && !is_gathered(&self->contest)) {
        status = kiln__contest_gather(&self->contest, WAIT_MS, self->report);
        tell(self);
    }
    return status;
}

/* ---- Timing */

/* xorshift64* by Vigna. */
static size_t next_random(sweep *self, size_t below)
{
    self->random ^= self->random >> 12;
    self->random ^= self->random << 25;
    self->random ^= self->random >> 27;
    return (size_t)((self->random * 0x2545f4914f6cdd1du >> 33) % below);
}

/* A kernel's neighbours matter to it: each has others in each round. */
static void shuffle(sweep *self)
{
    for (size_t i = self->column_count; i > 1; i--) {
        size_t other = next_random(self, i), column = self->columns[i - 1];
        self->columns[i - 1] = self->columns[other];
        self->columns[other] = column;
    }
}

static kiln_status play_round(sweep *self, double *row)
{
    kiln_status status = KILN_OK;
    shuffle(self);
    for (size_t i = 0; i < self->column_count && status == KILN_OK && !self->stop; i++) {
        size_t column = self->columns[i];
        if (column < self->count)
            status = kiln__contest_sample(&self->contest, column, &row[column], self->report);
        else
            status = kiln__ceiling_sample(&self->ceiling, column - self->count, &row[column], self->report);
        self->tuning->info.samples += column < self->count;
        tell(self);
    }
    return status;
}

/* Kernels and copies are compared: where there are no tapes for one of them, there are none for all. */
static bool share_basis(sweep *self)
{
    bool failed = self->contest.pace.failed || self->ceiling.pace.failed;
    self->contest.pace.failed = self->ceiling.pace.failed = failed;
    return failed;
}

static kiln_status choose_columns(sweep *self)
{
    kiln_status status = kiln__times_init(&self->times, self->count, self->rounds, self->report);
    if (status != KILN_OK)
        return status;
    self->columns = kiln__calloc(self->times.width, sizeof(*self->columns));
    if (self->columns == NULL)
        return kiln__fail_memory(self->report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->times.width; i++)
        if (i >= self->count || self->contest.variants[i].state == KILN__VARIANT_READY)
            self->columns[self->column_count++] = i;
    return KILN_OK;
}

static kiln_status play(sweep *self)
{
    kiln_status status = choose_columns(self);
    if (status == KILN_OK && !self->stop)
        status = kiln__ceiling_init(&self->ceiling, self->service, &self->contest.arrays, &self->specs[0].target,
                                    self->report);
    for (uint32_t round = 0; round <= self->rounds && status == KILN_OK && !self->stop; round++) {
        bool failed = share_basis(self);
        self->tuning->info.rounds = round > 0 ? round - 1 : 0;
        status = play_round(self, kiln__times_row(&self->times, round));
        if (status == KILN_OK && share_basis(self) != failed) {
            kiln__times_clear(&self->times);
            self->tuning->info.rounds = 0;
            round = UINT32_MAX; /* the next is 0: once at most */
        }
    }
    if (status == KILN_OK && !self->stop)
        self->tuning->info.rounds = self->rounds;
    return status;
}

/* ---- The way through */

static bool has_lost_patience(void *data)
{
    sweep *self = data;
    tell(self);
    return self->stop;
}

static kiln_status compete(sweep *self)
{
    const kiln__contest_options options = { .load = &self->load, .hot = self->options->work->hot != 0 };
    kiln_status status = kiln__contest_init(&self->contest, self->service, self->device, self->specs, self->count,
                                            &options, self->report);
    self->contest.keeps_spilled = true;
    if (status == KILN_OK) {
        self->tuning->info.verified_by = self->contest.proof.against;
        status = gather(self);
    }
    if (status == KILN_OK && !self->stop)
        status = play(self);
    return status;
}

static kiln_status conclude(sweep *self)
{
    kiln__progress_count(&self->progress);
    self->tuning->info.end = self->stop ? "stopped" : "complete";
    return kiln__ranking_make(self->tuning, &self->times, self->contest.variants, self->count, self->report);
}

/* Alone on the device, which has nothing of this any more when the turn ends. Where the host has no patience to wait
 * for the turn, nothing is known of any variant. */
static kiln_status take_turn(sweep *self)
{
    bool alone = kiln__turn_take(self->device, has_lost_patience, self, NULL) == KILN_OK;
    kiln_status status =
        alone ? compete(self) : kiln__contest_name(&self->contest, self->specs, self->count, self->report);
    if (status == KILN_OK)
        status = conclude(self);
    kiln__ceiling_fini(&self->ceiling);
    kiln__contest_fini(&self->contest);
    if (alone)
        kiln__turn_end(self->device);
    return status;
}

static kiln_status run(sweep *self, const kiln_spec *const *specs)
{
    kiln_status status = take_specs(self, specs);
    if (status != KILN_OK)
        return status;
    describe(self);
    return take_turn(self);
}

kiln_status kiln__sweep_make(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                             const kiln_sweep_options *options, kiln_report *report)
{
    sweep self = { .service = service,
                   .options = options,
                   .report = report,
                   .count = count,
                   .rounds = options->rounds > 0 ? options->rounds : ROUNDS,
                   .random = 0x9e3779b97f4a7c15u,
                   .progress = { .fn = options->progress,
                                 .data = options->data,
                                 .contest = &self.contest,
                                 .start = kiln__cpu_now_ns() } };
    *out = NULL;
    self.tuning = kiln__calloc(1, sizeof(*self.tuning));
    kiln_status status = self.tuning != NULL ? run(&self, specs) : kiln__fail_memory(report, KILN__STAGE_DEVICE);
    kiln__free(self.columns);
    kiln__times_fini(&self.times);
    kiln__free(self.specs);
    if (status == KILN_OK)
        *out = self.tuning;
    else
        kiln__tuning_free(self.tuning);
    return status;
}
