/* Samples of contenders, from submissions or from tapes, and rounds of them. */
#include "tune/measure.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "tune/statistics.h"
#include <math.h>
#include <string.h>

#define SAMPLE_MS   0.5
#define REPEATS_MAX (1u << 22) /* reached only where a submission takes next to no time */

/* A launch costs the host 2 to 4 us, and twice that on a slow one. */
#define SHORT_MS 0.02

/* Of a contender that is measured beside short ones: a tape of their length would take too long. */
#define LONG_MS 0.08

/* The time of a tape if the host's rate is the device's; where the device is faster, it takes less. No host disturbs
 * a replay, so that shorter samples do. */
#define TAPE_MS        0.4
#define TAPE_SAMPLE_MS 0.25
enum { TAPE_MAX = 256, REPLAYS_MAX = 64, ATTEMPTS = 2 };

typedef struct measurement {
    kiln_device *device;
    const kiln_contender *contenders;
    size_t count;
    kiln__basis basis;
    kiln__gauge *gauges; /* of each contender */
    size_t *order;       /* of the contenders in the present square */
    uint64_t random;
    kiln_report *report;
} measurement;

static kiln_status submit_sample(kiln_device *device, const kiln_contender *contender, uint32_t repeats, double *out,
                                 kiln_report *report)
{
    double ms = 0;
    kiln_status status =
        device->backend->vtable->time(device, contender->submit, contender->data, repeats, &ms, report);
    *out = ms / repeats;
    return status;
}

/* The repeats with which a sample lasts long enough, if a submission takes so long. A tenth is added because times
 * vary, and the growth is bounded because a first estimate may be far too short. */
static uint32_t more_repeats(uint32_t repeats, double ms)
{
    double sample_ms = ms * repeats;
    double growth = sample_ms >= SAMPLE_MS ? 1 : fmin(sample_ms > 0 ? 1.1 * SAMPLE_MS / sample_ms : 16, 16);
    return (uint32_t)fmin(ceil(repeats * growth), REPEATS_MAX);
}

/* Raises the repeats until a sample lasts long enough. The first submission is not counted on: it may load code, touch
 * new memory or wake a GPU. */
static kiln_status settle_repeats(kiln_device *device, const kiln_contender *contender, uint32_t *repeats, double *ms,
                                  kiln_report *report)
{
    *repeats = 1;
    kiln_status status = submit_sample(device, contender, *repeats, ms, report);
    for (uint32_t tried = 0; status == KILN_OK && tried != *repeats; *repeats = more_repeats(tried, *ms)) {
        tried = *repeats;
        status = submit_sample(device, contender, tried, ms, report);
    }
    return status;
}

/* ---- Tapes */

/* Whole cycles, so that every submission comes as long after the one on the same memory as it would without a tape. */
static void set_basis(kiln__basis *basis, const kiln_device *device, double ms)
{
    uint32_t cycle = basis->cycle > 0 ? basis->cycle : 1;
    basis->is_set = true;
    if (!basis->tapes || device->backend->vtable->tapes == NULL || ms >= SHORT_MS || ms <= 0)
        return;
    uint32_t wanted = (uint32_t)fmin(ceil(TAPE_MS / ms), TAPE_MAX);
    basis->length = (wanted + cycle - 1) / cycle * cycle;
}

void kiln__gauge_fini(kiln_device *device, kiln__gauge *gauge)
{
    if (gauge->tape != NULL)
        device->backend->vtable->tapes->discard(device, gauge->tape);
    gauge->tape = NULL;
}

/* Times `replays` replays. A failure is not reported: a broken device fails without a tape as well. */
static bool play_tape(kiln_device *device, kiln__gauge *gauge, double *ms)
{
    if (gauge->tape != NULL &&
        device->backend->vtable->tapes->play(device, gauge->tape, gauge->replays, ms, NULL) == KILN_OK)
        return true;
    kiln__gauge_fini(device, gauge);
    return false;
}

static bool make_tape(kiln_device *device, const kiln_contender *contender, uint32_t length, kiln__gauge *gauge)
{
    double ms = 0;
    gauge->tape = device->backend->vtable->tapes->make(device, contender->submit, contender->data, length);
    gauge->length = length;
    gauge->replays = 1;
    if (!play_tape(device, gauge, &ms))
        return false;
    gauge->replays = ms > 0 ? (uint32_t)fmax(1, fmin(ceil(TAPE_SAMPLE_MS / ms), REPLAYS_MAX)) : REPLAYS_MAX;
    return true;
}

/* A sample from the tape, or from one that is made in its place: memory may have been short for a moment. */
static bool sample_tape(kiln_device *device, const kiln_contender *contender, kiln__gauge *gauge, double *ms)
{
    return play_tape(device, gauge, ms) ||
           (make_tape(device, contender, gauge->length, gauge) && play_tape(device, gauge, ms));
}

/* ---- A contender */

kiln_status kiln__measure_settle(kiln_device *device, const kiln_contender *contender, kiln__basis *basis,
                                 kiln__gauge *gauge, kiln_report *report)
{
    double ms = 0;
    if (gauge->repeats > 0)
        return KILN_OK;
    kiln_status status = settle_repeats(device, contender, &gauge->repeats, &ms, report);
    if (status == KILN_OK && !basis->is_set)
        set_basis(basis, device, ms);
    bool wanted = status == KILN_OK && basis->length > 0 && ms < LONG_MS && !basis->failed;
    for (int attempt = 0; attempt < ATTEMPTS && wanted; attempt++)
        wanted = !make_tape(device, contender, basis->length, gauge);
    basis->failed = basis->failed || wanted;
    return status;
}

kiln_status kiln__measure_sample(kiln_device *device, const kiln_contender *contender, kiln__basis *basis,
                                 kiln__gauge *gauge, double *out, kiln_report *report)
{
    double ms = 0;
    kiln_status status = kiln__measure_settle(device, contender, basis, gauge, report);
    if (status != KILN_OK)
        return status;
    if (gauge->tape != NULL && !basis->failed)
        basis->failed = !sample_tape(device, contender, gauge, &ms);
    if (basis->failed)
        kiln__gauge_fini(device, gauge);
    if (gauge->tape == NULL)
        return submit_sample(device, contender, gauge->repeats, out, report);
    *out = ms / ((double)gauge->replays * gauge->length);
    return KILN_OK;
}

/* ---- Contenders against each other */

/* The contenders before a sample matter to it. So the orders of the rounds are rows of Williams' squares: over a square
 * each contender stands in each place equally often and follows each other equally often. An odd number of contenders
 * takes two mirrored squares. Each square has the contenders in a random order. */
static size_t contender_at(measurement *m, size_t round, size_t place)
{
    size_t count = m->count, rows = count % 2 == 0 ? count : 2 * count, row = round % rows;
    size_t at = row < count ? place : count - 1 - place;
    size_t first = at % 2 != 0 ? (at + 1) / 2 : count - at / 2;
    if (row == 0 && place == 0)
        kiln__shuffle(m->order, count, &m->random);
    return m->order[(first + row) % count];
}

/* Times every contender once; row[c] gets milliseconds of one submission. As many uncounted submissions go before those
 * of a sample: a contender finds the caches and the threads as it left them itself, not as the one before it did. */
static kiln_status play_round(measurement *m, uint32_t round, double *row)
{
    for (size_t i = 0; i < m->count; i++) {
        size_t c = contender_at(m, round, i);
        const kiln__gauge *gauge = &m->gauges[c];
        kiln_status status = gauge->tape == NULL
                                 ? submit_sample(m->device, &m->contenders[c], gauge->repeats, &row[c], m->report)
                                 : KILN_OK;
        if (status == KILN_OK)
            status = kiln__measure_sample(m->device, &m->contenders[c], &m->basis, &m->gauges[c], &row[c], m->report);
        if (status != KILN_OK)
            return status;
    }
    return KILN_OK;
}

/* The rounds that count. They begin anew where tapes fail, which happens once at most. */
static kiln_status play_rounds(measurement *m, uint32_t rounds, double *samples)
{
    kiln_status status = KILN_OK;
    for (uint32_t r = 0; r < rounds && status == KILN_OK; r++) {
        bool failed = m->basis.failed;
        status = play_round(m, r, samples + r * m->count);
        if (m->basis.failed != failed)
            r = UINT32_MAX; /* the next is 0 */
    }
    return status;
}

/* Raises the repeats of contenders whose sample in the round was too short: the load was higher while they settled.
 * Then contenders that are about equally fast get equal samples. Else the first submissions of a sample, which find
 * other caches, would count more for one than for another. */
static void adjust_repeats(measurement *m, double *row)
{
    for (size_t c = 0; c < m->count; c++) {
        if (m->gauges[c].tape == NULL)
            m->gauges[c].repeats = more_repeats(m->gauges[c].repeats, row[c]);
        row[c] = m->gauges[c].repeats;
    }
    for (size_t c = 0; c < m->count; c++)
        for (size_t k = 0; k < m->count; k++)
            if (row[k] > m->gauges[c].repeats && row[k] <= 2 * row[c])
                m->gauges[c].repeats = (uint32_t)row[k];
}

/* `scratch` has room for a row and for a column. */
static kiln_status play(measurement *m, uint32_t warmup, uint32_t rounds, kiln_timing *out, double *samples,
                        double *scratch)
{
    kiln_status status = KILN_OK;
    for (size_t c = 0; c < m->count; c++)
        m->order[c] = c;
    for (size_t c = 0; c < m->count && status == KILN_OK; c++)
        status = kiln__measure_settle(m->device, &m->contenders[c], &m->basis, &m->gauges[c], m->report);
    for (uint32_t r = 0; r + 1 < warmup && status == KILN_OK; r++) {
        status = play_round(m, r, scratch);
        if (status == KILN_OK)
            adjust_repeats(m, scratch);
    }
    if (status == KILN_OK)
        status = play_rounds(m, rounds, samples);
    for (size_t c = 0; c < m->count && status == KILN_OK; c++) {
        for (uint32_t r = 0; r < rounds; r++)
            scratch[r] = samples[r * m->count + c];
        out[c].median_ms = kiln__median(scratch, rounds); /* sorts them */
        out[c].min_ms = scratch[0];
        out[c].max_ms = scratch[rounds - 1];
        out[c].samples = rounds;
    }
    return status;
}

static kiln_status check(const kiln_device *device, const kiln_contender *contenders, size_t count, uint32_t rounds,
                         const kiln_timing *out, kiln_report *report)
{
    const char *problem = NULL;
    if (device == NULL)
        problem = "device is NULL";
    else if (contenders == NULL || count == 0)
        problem = "there are no contenders: expected at least one";
    else if (rounds == 0)
        problem = "rounds is 0: expected at least 1";
    else if (out == NULL)
        problem = "out is NULL: expected one kiln_timing for each contender";
    for (size_t c = 0; problem == NULL && c < count; c++) {
        if (contenders[c].submit == NULL)
            problem = "a contender's submit is NULL";
    }
    return problem == NULL ? KILN_OK : kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", problem);
}

kiln_status kiln__measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                          const kiln_measure_options *options, kiln_report *report)
{
    measurement m = { .device = device,
                      .contenders = contenders,
                      .count = count,
                      .basis = { .tapes = options->replay != 0 },
                      .random = kiln__cpu_now_ns() | 1,
                      .report = report };
    uint32_t rounds = options->rounds;
    double *own = NULL, *scratch = NULL, *samples = options->samples;
    kiln_status status = check(device, contenders, count, rounds, out, report);
    if (status != KILN_OK)
        return status;
    memset(out, 0, count * sizeof(*out));
    m.gauges = kiln__calloc(count, sizeof(*m.gauges));
    m.order = kiln__calloc(count, sizeof(*m.order));
    scratch = kiln__calloc(count > rounds ? count : rounds, sizeof(*scratch));
    if (samples == NULL && count <= SIZE_MAX / rounds)
        samples = own = kiln__calloc(count * rounds, sizeof(*own));
    if (m.gauges == NULL || m.order == NULL || scratch == NULL || samples == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_DEVICE);
    else
        status = play(&m, options->warmup, rounds, out, samples, scratch);
    for (size_t c = 0; c < count && m.gauges != NULL; c++)
        kiln__gauge_fini(device, &m.gauges[c]);
    kiln__free(m.gauges);
    kiln__free(m.order);
    kiln__free(scratch);
    kiln__free(own);
    return status;
}
