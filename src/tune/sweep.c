/* Sweeps: every spec of a list is compiled, checked and timed in every round, and so are plain copies of as many bytes.
 */
#include "base/alloc.h"
#include "tune/session.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS = 20,
    ROUNDS = 30,
    COPIES = 2, /* the device's own, and a kernel that does nothing else */
    WORD = 4,   /* bytes that the kernel copies at a time, of whatever type the values are */
    INTERVAL_FROM = 6,
    SLOWER_FROM = 8
};

#define TAIL_INTERVAL 0.025 /* on each side: 95% */
#define TAIL_SLOWER   0.001 /* for all comparisons together: the winner of many was lucky, too */

/* The ceiling: copies from one half of a set of arrays to the other. Kernels of out, inputs and n find other values
 * there afterwards, random ones as before; those with user-defined arguments find the same. */
typedef struct plain_copies {
    kiln_kernel *kernel;
    uint64_t bytes; /* of a copy: half of the traffic of a launch, if the arrays hold that */
    double scale;   /* that half over the bytes of a copy */
    kiln__basis basis;
    kiln__gauge gauges[COPIES];
    uint32_t set; /* of the arrays, for the next copy */
} plain_copies;

typedef struct sweep {
    kiln__session session;
    kiln__fields *specs; /* resolved; their ops are those of the host's */
    size_t count;
    uint32_t rounds; /* to be played */
    plain_copies copies;
    /* The samples: a row for each round, the first for the warm-up, and a column for each variant and then for each
     * copy; 0 is none. */
    double *rows, *scratch; /* the scratch has room for a column */
    size_t width;
    size_t *columns, column_count; /* those that are timed, in the order of the round */
    uint64_t random;
} sweep;

/* ---- The specs */

/* The part that all specs of a sweep have in common: their op or template, number of inputs, types, math, round and
 * target. */
static bool write_kind(const kiln__fields *spec, kiln__text *out)
{
    if (!kiln__template_takes_op(spec->template)) {
        kiln__text_printf(out, "template=%s", spec->template->name);
    } else {
        kiln__text_printf(out, "op=");
        kiln__spec_value(spec, "op", out);
    }
    kiln__text_printf(out, " inputs=%u", (unsigned)kiln__spec_inputs(spec));
    kiln__spec_append(spec, "dtype", out);
    if (kiln__spec_casts(spec))
        kiln__spec_append(spec, "out", out);
    if (spec->layout_count > 0)
        kiln__spec_append(spec, "layout", out);
    if (spec->math != kiln__math_default(spec->template))
        kiln__spec_append(spec, "math", out);
    if (spec->round == KILN__ROUND_EAGER)
        kiln__spec_append(spec, "round", out);
    kiln__text_printf(out, " target=%s", spec->target.name);
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

static kiln_status take_specs(sweep *self, const kiln_spec *const *specs)
{
    kiln__session *session = &self->session;
    kiln_status status = kiln__session_open(session, &specs[0]->fields);
    if (status == KILN_OK && (self->specs = kiln__calloc(self->count, sizeof(*self->specs))) == NULL)
        status = kiln__fail_memory(session->report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->count && status == KILN_OK; i++) {
        kiln__fields sized = specs[i]->fields;
        kiln__fields_take_sizes(&sized, session->work->sizes, session->work->size_count);
        status = kiln__service_resolve(session->service, session->device, &sized, &self->specs[i], session->report);
        if (status == KILN_OK)
            status = kiln__service_check_target(session->device, &self->specs[i].target, session->report);
        if (status == KILN_OK)
            status = check_kind(&self->specs[0], &self->specs[i], session->report);
    }
    return status == KILN_OK ? kiln__session_prepare(session, &specs[0]->fields, &self->specs[0], self->count) : status;
}

/* ---- The copies */

static kiln_status init_copies(sweep *self)
{
    plain_copies *copies = &self->copies;
    kiln__session *session = &self->session;
    const kiln__arrays *arrays = &session->contest.arrays;
    uint64_t wanted = arrays->load.bytes / 2, most = arrays->set_bytes / 2;
    copies->basis = (kiln__basis){ .tapes = true, .cycle = arrays->sets };
    copies->bytes = (wanted < most ? wanted : most) / WORD * WORD;
    if (copies->bytes == 0)
        copies->bytes = WORD;
    copies->scale = wanted > most ? (double)wanted / (double)copies->bytes : 1;
    return kiln__get_named(&copies->kernel, session->service, session->device, session->report,
                           "op=copy dtype=f32 target=%s", self->specs[0].target.name);
}

/* The halves of the next set. */
static void next_halves(sweep *self, void **to, const void **from)
{
    const kiln__arrays *arrays = &self->session.contest.arrays;
    self->copies.set = (self->copies.set + 1) % arrays->sets;
    *from = kiln__arrays_in(arrays, self->copies.set, 0);
    *to = (char *)kiln__arrays_in(arrays, self->copies.set, 0) + arrays->set_bytes / 2;
}

static kiln_status submit_copy(void *data, void *stream)
{
    sweep *self = data;
    kiln_device *device = self->session.device;
    const void *from;
    void *to;
    next_halves(self, &to, &from);
    return device->backend->vtable->copy(device, to, from, self->copies.bytes, KILN__COPY_ON_DEVICE, stream,
                                         self->session.report);
}

static kiln_status submit_kernel(void *data, void *stream)
{
    sweep *self = data;
    const void *from;
    void *to;
    next_halves(self, &to, &from);
    return kiln__kernel_launch_n(self->copies.kernel, self->copies.bytes / WORD, &to, 1, &from, 1, stream,
                                 self->session.report);
}

/* Milliseconds of one of the copies. A copy that falls on whole numbers makes wrong indices, so they are restored. */
static kiln_status sample_copy(sweep *self, size_t copy, double *ms)
{
    const kiln_contender contender = { copy == 0 ? submit_copy : submit_kernel, self };
    const kiln__arrays *arrays = &self->session.contest.arrays;
    kiln_status status = kiln__measure_sample(self->session.device, &contender, &self->copies.basis,
                                              &self->copies.gauges[copy], ms, self->session.report);
    *ms *= self->copies.scale;
    return status == KILN_OK && arrays->load.whole ? kiln__arrays_restore(arrays, true, self->session.report) : status;
}

/* ---- Timing */

static double *row_of(const sweep *self, uint32_t row)
{
    return self->rows + (size_t)row * self->width;
}

static kiln_status play_round(sweep *self, double *row)
{
    kiln__session *session = &self->session;
    kiln_status status = KILN_OK;
    kiln__shuffle(self->columns, self->column_count, &self->random); /* a kernel's neighbours matter to it */
    for (size_t i = 0; i < self->column_count && status == KILN_OK && !session->stop; i++) {
        size_t column = self->columns[i];
        status = column < self->count ? kiln__contest_sample(&session->contest, column, &row[column], session->report)
                                      : sample_copy(self, column - self->count, &row[column]);
        session->tuning->info.samples += column < self->count;
        kiln__session_tell(session);
    }
    return status;
}

/* Kernels and copies are compared: where there are no tapes for one of them, there are none for all. */
static bool share_basis(sweep *self)
{
    bool failed = self->session.contest.basis.failed || self->copies.basis.failed;
    self->session.contest.basis.failed = self->copies.basis.failed = failed;
    return failed;
}

static kiln_status make_table(sweep *self)
{
    self->width = self->count + COPIES;
    self->rows = kiln__calloc((self->rounds + (size_t)1) * self->width, sizeof(*self->rows));
    self->scratch = kiln__calloc(self->rounds, sizeof(*self->scratch));
    self->columns = kiln__calloc(self->width, sizeof(*self->columns));
    if (self->rows == NULL || self->scratch == NULL || self->columns == NULL)
        return kiln__fail_memory(self->session.report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->width; i++)
        if (i >= self->count || self->session.contest.variants[i].state == KILN__READY)
            self->columns[self->column_count++] = i;
    return KILN_OK;
}

static kiln_status play(sweep *self)
{
    kiln__session *session = &self->session;
    kiln_tuning_info *info = &session->tuning->info;
    kiln_status status = make_table(self);
    if (status == KILN_OK && !session->stop)
        status = init_copies(self);
    for (uint32_t round = 0; round <= self->rounds && status == KILN_OK && !session->stop; round++) {
        bool failed = share_basis(self);
        info->rounds = round > 0 ? round - 1 : 0;
        status = play_round(self, row_of(self, round));
        if (status == KILN_OK && share_basis(self) != failed) {
            memset(self->rows, 0, (self->rounds + (size_t)1) * self->width * sizeof(*self->rows));
            info->rounds = 0;
            round = UINT32_MAX; /* the next is 0: once at most */
        }
    }
    if (status == KILN_OK && !session->stop)
        info->rounds = self->rounds;
    return status;
}

/* ---- The ranking */

static double sample_of(const sweep *self, uint32_t round, size_t column)
{
    return row_of(self, round + 1)[column];
}

static double median_of(const sweep *self, size_t column, uint64_t *samples)
{
    *samples = 0;
    for (uint32_t r = 0; r < self->rounds; r++)
        if (sample_of(self, r, column) > 0)
            self->scratch[(*samples)++] = sample_of(self, r, column);
    return kiln__median(self->scratch, *samples);
}

/* The logarithm of one's time over the other's, of the rounds in which both were timed: a slowdown of all alike is
 * gone from it. */
static kiln__estimate compare_times(const sweep *self, size_t one, size_t other)
{
    size_t count = 0;
    for (uint32_t r = 0; r < self->rounds; r++)
        if (sample_of(self, r, one) > 0 && sample_of(self, r, other) > 0)
            self->scratch[count++] = log(sample_of(self, r, one) / sample_of(self, r, other));
    return kiln__estimate_of(self->scratch, count);
}

/* The column of the copy that is faster, or that of the default where none was timed. */
static size_t find_ceiling(const sweep *self, double *ceiling_ms)
{
    size_t best = 0;
    for (size_t i = self->count; i < self->width; i++) {
        uint64_t samples;
        double ms = median_of(self, i, &samples);
        if (samples == 0 || (*ceiling_ms > 0 && *ceiling_ms <= ms))
            continue;
        *ceiling_ms = ms;
        best = i;
    }
    return best;
}

/* Fewer samples than INTERVAL_FROM do not tell how far off they are. */
static void put_times(const sweep *self, kiln_variant_result *out, size_t column, size_t ceiling)
{
    out->median_ms = median_of(self, column, &out->samples);
    if (out->samples == 0)
        return;
    kiln__estimate to_default = compare_times(self, column, 0), to_ceiling = compare_times(self, column, ceiling);
    double reach = INFINITY;
    if (column == 0)
        reach = 0;
    else if (to_default.count >= INTERVAL_FROM)
        reach = kiln__t_quantile(TAIL_INTERVAL, to_default.freedom) * to_default.error;
    if (to_default.count == 0)
        return;
    out->verdict = KILN_VERDICT_TIED;
    out->ratio = exp(to_default.value);
    out->low = exp(to_default.value - reach);
    out->high = exp(to_default.value + reach);
    out->ceiling_ratio = ceiling > 0 && to_ceiling.count > 0 ? exp(to_ceiling.value) : 0;
}

/* Variants that were timed by their ratio, then the others, the rejected last. */
static int compare_ranked(const void *a, const void *b)
{
    static const int classes[] = {
        [KILN_VERDICT_TIED] = 0, [KILN_VERDICT_UNMEASURED] = 1, [KILN_VERDICT_REJECTED] = 2
    };
    const kiln__ranked *x = a, *y = b;
    if (x->result.verdict != y->result.verdict)
        return classes[x->result.verdict] - classes[y->result.verdict];
    if (x->result.ratio != y->result.ratio)
        return x->result.ratio < y->result.ratio ? -1 : 1;
    return (x->variant > y->variant) - (x->variant < y->variant);
}

/* The first of the sorted list has won, and some of the others are certainly slower. */
static void give_verdicts(const sweep *self, kiln__ranked *list)
{
    if (list[0].result.verdict != KILN_VERDICT_TIED)
        return;
    list[0].result.verdict = KILN_VERDICT_WINNER;
    for (size_t i = 1; i < self->count && list[i].result.verdict == KILN_VERDICT_TIED; i++) {
        kiln__estimate behind = compare_times(self, list[i].variant, list[0].variant);
        if (behind.count >= SLOWER_FROM &&
            behind.value > kiln__t_quantile(TAIL_SLOWER / (double)self->count, behind.freedom) * behind.error)
            list[i].result.verdict = KILN_VERDICT_SLOWER;
    }
}

/* A sweep that never had its turn knows nothing of any variant. */
static kiln_status conclude(sweep *self)
{
    kiln__session *session = &self->session;
    kiln_tuning_info *info = &session->tuning->info;
    kiln__ranked *list = kiln__calloc(self->count, sizeof(*list));
    if (list == NULL)
        return kiln__fail_memory(session->report, KILN__STAGE_DEVICE);
    bool timed = self->rows != NULL;
    size_t ceiling = timed ? find_ceiling(self, &info->ceiling_ms) : 0;
    for (size_t i = 0; i < self->count; i++) {
        bool rejected = session->contest.variants[i].state == KILN__OUT;
        list[i].variant = i;
        list[i].result.verdict = rejected ? KILN_VERDICT_REJECTED : KILN_VERDICT_UNMEASURED;
        if (!rejected && timed)
            put_times(self, &list[i].result, i, ceiling);
    }
    info->default_ms = list[0].result.median_ms;
    info->end = session->stop ? "stopped" : "complete";
    qsort(list, self->count, sizeof(*list), compare_ranked);
    give_verdicts(self, list);
    kiln_status status = kiln__session_rank(session, list, self->count);
    kiln__free(list);
    return status;
}

/* ---- The way through */

/* Alone on the device. */
static kiln_status compete(sweep *self)
{
    kiln__session *session = &self->session;
    kiln__contest *contest = &session->contest;
    const kiln__contest_options options = { .load = &session->load,
                                            .hot = session->work->hot != 0,
                                            .keeps_spilled = true };
    kiln_status status = kiln__contest_init(contest, session->service, session->device, self->specs, self->count,
                                            &options, session->report);
    if (status != KILN_OK)
        return status;
    session->tuning->info.verified_by = contest->proof.against;
    kiln__contest_count(contest, &session->tuning->info);
    while (status == KILN_OK && !session->stop && session->tuning->info.waiting > 0) {
        status = kiln__contest_gather(contest, WAIT_MS, session->report);
        kiln__session_tell(session);
        kiln__contest_count(contest, &session->tuning->info);
    }
    if (status == KILN_OK && !session->stop)
        status = play(self);
    return status == KILN_OK ? conclude(self) : status;
}

static kiln_status run_sweep(sweep *self, const kiln_spec *const *specs)
{
    kiln__session *session = &self->session;
    kiln_status status = take_specs(self, specs);
    if (status != KILN_OK)
        return status;
    if (!kiln__session_take_turn(session)) {
        status = kiln__contest_name(&session->contest, self->specs, self->count, session->report);
        if (status == KILN_OK)
            status = conclude(self);
        kiln__contest_fini(&session->contest);
        return status;
    }
    status = compete(self);
    for (size_t copy = 0; copy < COPIES; copy++)
        kiln__gauge_fini(session->device, &self->copies.gauges[copy]);
    kiln__kernel_release(self->copies.kernel);
    kiln__session_end_turn(session);
    return status;
}

kiln_status kiln__sweep_make(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                             const kiln_sweep_options *options, kiln_report *report)
{
    sweep self = { .session = { .service = service,
                                .work = options->work,
                                .progress = options->progress,
                                .data = options->data,
                                .report = report },
                   .count = count,
                   .rounds = options->rounds > 0 ? options->rounds : ROUNDS,
                   .random = 0x9e3779b97f4a7c15u };
    *out = NULL;
    kiln_status status = run_sweep(&self, specs);
    kiln__free(self.specs);
    kiln__free(self.rows);
    kiln__free(self.scratch);
    kiln__free(self.columns);
    return kiln__session_close(&self.session, status, out);
}
