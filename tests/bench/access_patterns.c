/* bench_access_patterns [--op OP] [--dtype DTYPE] [--n N,N] [--heats N] [--finals N] [--kinds KIND,KIND] [--csv FILE]
 *                       [--libcuda PATH] [--compile TARGET]
 *
 * Does another way to move the bytes of an element-wise kernel beat the template's own, one tile per block? The ways
 * are in access/patterns.cu: a fixed grid that takes tiles in turn, bounds on the occupancy, bulk copies through
 * shared memory, cache hints that the template does not have. Each variant uses Kiln's ops and is first checked bit
 * for bit, at counts with every kind of tail, against the template's default kernel, which is itself checked against
 * the cpu.
 *
 * Heats: all variants in rounds of random order; after two rounds only those within 2% go on. Finals: the best of
 * each kind, the template's default and cuMemcpyDtoD; ratios are paired within a round, to that one-tile kernel of
 * the template which is fastest in the finals. Every sample comes after an untimed launch of the same variant,
 * because what a kernel leaves in the L2 cache slows its successor; the last column has finals in which a copy of
 * the arrays comes before.
 *
 * --compile compiles everything for a target and needs no GPU. */
#include "bench/access/variants.h"
#include "support/fields.h"

#include "base/alloc.h"
#include "gpu/cuda.h"
#include "gpu/device.h"
#include "os/cpu.h"
#include "service/service.h"
#include "tune/measure.h"
#include "tune/statistics.h"
#include "tune/verify.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of access/patterns.cu. */
extern const char access_kernels[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n"
        ".global access_kernels\n"
        "access_kernels: .incbin \"" ACCESS_KERNELS "\"\n"
        ".byte 0\n"
        ".popsection");

enum {
    FINALISTS_MAX = 32,
    SIZES_MAX = 4,
    HEATS = 5,
    FINALS = 21,
    TRIAL_ROUNDS = 2,
    LARGE = 1 << 28 /* elements from which on one launch is long enough for a sample */
};
#define GOING_ON 1.02

/* Attributes of a kernel that Kiln itself does not set. */
enum {
    SHARED_LIMIT = 8 /* MAX_DYNAMIC_SHARED_SIZE_BYTES */,
    SHARED_PERCENT = 9 /* PREFERRED_SHARED_MEMORY_CARVEOUT */
};

typedef struct finalist {
    access_variant *variant;
    double own[ACCESS_ROUNDS_MAX], after[ACCESS_ROUNDS_MAX]; /* a launch after itself, and after a copy */
} finalist;

typedef struct bench {
    const char *only_op, *only_dtype, *libcuda, *compile;
    uint64_t sizes[SIZES_MAX];
    int size_count, heats, finals;
    FILE *csv;
    kiln_service *service;
    kiln_device *base;
    const kiln__cuda_device *device;
    kiln__compiler *compiler;
    kiln__cu_enum (*set_attribute)(kiln__cu_enum attribute, int value, CUkernel kernel, CUdevice device);
    access_list list;
    atomic_size_t next_code;
    kiln__arrays arrays;
    kiln__proof proof;
    uint64_t n; /* of the launches now */
    uint64_t random, begin;
} bench;

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_access_patterns: %s: %s\n", what, why);
    exit(1);
}

static void must(kiln_status status, const char *what, const kiln_report *report)
{
    check(status == KILN_OK, what, report->message);
}

static double seconds(const bench *self)
{
    return (double)(kiln__cpu_now_ns() - self->begin) / 1e9;
}

/* ---- Compiling */

/* The unit of a spec, and behind it the defines and patterns.cu. */
static kiln__unit *unit_for(bench *self, const access_code *one, kiln_report *report)
{
    kiln__fields spec;
    kiln__unit *unit;
    kiln__text text = { 0 };
    char defines[ACCESS_TEXT], *rest = NULL;
    must(kiln_test_fields(&spec, &self->service->catalog, one->spec, report), one->spec, report);
    must(kiln__service_unit(self->service, NULL, &spec, &unit, report), one->spec, report);
    if (one->defines[0] == '\0')
        return unit;
    kiln__text_printf(&text, "%s", unit->source);
    strcpy(defines, one->defines);
    for (char *word = strtok_r(defines, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        kiln__text_printf(&text, "#define %.*s %s\n", (int)(equals - word), word, equals + 1);
    }
    kiln__text_printf(&text, "%s", access_kernels);
    kiln__free(unit->source);
    unit->source_length = text.length;
    unit->source = kiln__text_take(&text);
    check(unit->source != NULL, one->spec, "out of memory");
    unit->rule.entry_count = 1;
    strcpy(unit->rule.entries[0].name, "kiln_access");
    return unit;
}

static void *compile_some(void *data)
{
    bench *self = data;
    size_t i;
    while ((i = atomic_fetch_add(&self->next_code, 1)) < self->list.code_count) {
        access_code *one = &self->list.codes[i];
        kiln_report report = KILN_INIT(kiln_report);
        kiln__unit *unit = unit_for(self, one, &report);
        one->status = self->compiler->vtable->compile(self->compiler, unit, &one->image, &report);
        snprintf(one->problem, sizeof(one->problem), "%.250s", report.message);
        kiln_report_clear(&report);
        kiln__unit_free(unit);
    }
    return NULL;
}

static void compile_all(bench *self)
{
    pthread_t threads[64];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    atomic_store(&self->next_code, 0);
    while (started < 64 && started < cpus && pthread_create(&threads[started], NULL, compile_some, self) == 0)
        started++;
    check(started > 0, "threads", "none could be started");
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < self->list.code_count; i++)
        if (self->list.codes[i].status != KILN_OK)
            printf("  does not compile: %s %s: %s\n", self->list.codes[i].spec, self->list.codes[i].defines,
                   self->list.codes[i].problem);
}

/* ---- The GPU */

static kiln_status driver_result(const bench *self, const char *function, kiln__cu_enum result, kiln_report *report)
{
    kiln__cuda_call call = kiln__cuda_call_on(self->device, KILN_ELAUNCH, KILN__STAGE_LAUNCH, report);
    kiln__cuda_result(&call, function, result);
    return call.status;
}

static void expect(const bench *self, const char *function, kiln__cu_enum result)
{
    kiln_report report = KILN_INIT(kiln_report);
    must(driver_result(self, function, result, &report), function, &report);
}

static void load_one(const bench *self, access_code *one)
{
    const kiln__driver *driver = self->device->driver;
    CUdevice device = self->device->handle;
    CUlibrary library;
    const char *entry = one->defines[0] != '\0' ? "kiln_access" : "kiln_vector";
    expect(self, "cuLibraryLoadData",
           driver->cuLibraryLoadData(&library, one->image.binary, NULL, NULL, 0, NULL, NULL, 0));
    expect(self, "cuLibraryGetKernel", driver->cuLibraryGetKernel(&one->kernel, library, entry));
    expect(self, "cuKernelGetAttribute",
           driver->cuKernelGetAttribute(&one->registers, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS, one->kernel, device));
    expect(
        self, "cuKernelGetAttribute",
        driver->cuKernelGetAttribute(&one->local_bytes, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, one->kernel, device));
}

/* More dynamic shared memory than a kernel may have as a rule. One limit for all variants of a kernel. Those that copy
 * through it also ask that as little as can be is left to the L1 cache; the template's kernels keep what they have. */
static void allow_shared(const bench *self, const access_variant *v)
{
    CUdevice device = self->device->handle;
    expect(self, "cuKernelSetAttribute",
           self->set_attribute(SHARED_LIMIT, ACCESS_SHARED_OF_SM - 1024, v->code->kernel, device));
    if (v->kind == ACCESS_BULK || v->kind == ACCESS_RING)
        expect(self, "cuKernelSetAttribute", self->set_attribute(SHARED_PERCENT, 100, v->code->kernel, device));
}

static void load_all(bench *self)
{
    for (size_t i = 0; i < self->list.code_count; i++)
        if (self->list.codes[i].status == KILN_OK)
            load_one(self, &self->list.codes[i]);
    for (size_t i = 0; i < self->list.count; i++) {
        access_variant *v = &self->list.variants[i];
        v->out = v->code->status != KILN_OK || (v->shared > 0 && self->set_attribute == NULL);
        if (v->shared > 0 && !v->out)
            allow_shared(self, v);
    }
}

/* ---- Launches */

typedef struct shot {
    bench *bench;
    const access_variant *variant;
    kiln_report *report;
} shot;

/* Moves as many bytes as the kernels do: n elements for one input, for two inputs half as many more. */
static kiln_status copy_as_much(const shot *s, CUstream stream)
{
    bench *self = s->bench;
    CUdeviceptr out = (CUdeviceptr)(uintptr_t)kiln__arrays_in(&self->arrays, 0, 0);
    uint64_t left = self->n * self->list.bytes * (self->list.inputs + 1) / 2;
    kiln_status status = KILN_OK;
    for (unsigned i = 0; i < self->list.inputs && left > 0 && status == KILN_OK; i++) {
        CUdeviceptr in = (CUdeviceptr)(uintptr_t)kiln__arrays_in(&self->arrays, 0, 1 + i);
        uint64_t part = left < self->n * self->list.bytes ? left : self->n * self->list.bytes;
        status = driver_result(self, "cuMemcpyDtoDAsync",
                               self->device->driver->cuMemcpyDtoDAsync(out, in, part, stream), s->report);
        left -= part;
    }
    return status;
}

static kiln_status submit(void *data, void *stream)
{
    const shot *s = data;
    bench *self = s->bench;
    const access_variant *v = s->variant;
    void *out = kiln__arrays_in(&self->arrays, 0, 0), *in[KILN__INPUTS_MAX],
         *parameters[KILN__INPUTS_MAX + 2] = { &out };
    if (v->kind == ACCESS_COPY)
        return copy_as_much(s, stream);
    for (unsigned i = 0; i < self->list.inputs; i++) {
        in[i] = kiln__arrays_in(&self->arrays, 0, 1 + i);
        parameters[1 + i] = &in[i];
    }
    parameters[1 + self->list.inputs] = &self->n;
    uint64_t blocks =
        v->per_sm > 0 ? (uint64_t)v->per_sm * self->device->multiprocessors : (self->n + v->tile - 1) / v->tile;
    return driver_result(self, "cuLaunchKernel",
                         self->device->driver->cuLaunchKernel((CUfunction)v->code->kernel, (unsigned)blocks, 1, 1,
                                                              v->block, 1, 1, v->shared, stream, parameters, NULL),
                         s->report);
}

/* Milliseconds of a launch of `v` right after one of `before`. */
static double sample(bench *self, const access_variant *v, const access_variant *before)
{
    kiln_report report = KILN_INIT(kiln_report);
    shot one = { self, v, &report }, other = { self, before, &report };
    kiln_contender contender = { .submit = submit, .data = &one };
    double ms = 0;
    must(submit(&other, self->device->stream), before->name, &report);
    kiln__basis basis = { .tapes = false };
    kiln__gauge gauge = { .repeats = self->n >= LARGE || v != before ? 1 : 4 };
    must(kiln__measure_sample(self->base, &contender, &basis, &gauge, &ms, &report), v->name, &report);
    kiln_report_clear(&report);
    return ms;
}

/* ---- The proof. The arrays are out and the inputs. */

static kiln__verdict compare(bench *self, uint64_t n, kiln_report *report)
{
    const kiln__load *load = &self->arrays.load;
    kiln__verdict result = { .wrong = 0 };
    must(kiln__compare(&self->proof.comparer, &load->arrays[0], kiln__arrays_in(&self->arrays, 0, 0),
                       (char *)self->proof.want + self->proof.want_at[0], n, &result, report),
         "compare", report);
    return result;
}

/* Launches on n elements over poison and compares all of them; what lies behind must still be poison. */
static bool is_right(bench *self, const access_variant *v, uint64_t n)
{
    enum { GUARD = 4096 };
    unsigned char guard[GUARD];
    kiln_report report = KILN_INIT(kiln_report);
    shot one = { self, v, &report };
    char *out = kiln__arrays_in(&self->arrays, 0, 0);
    self->n = n;
    must(kiln__fill_bytes(self->base, out, KILN__FILL_POISON, n * self->list.bytes + GUARD, &report), "poison",
         &report);
    must(submit(&one, self->device->stream), v->name, &report);
    must(kiln_sync(self->base, &report), v->name, &report);
    kiln__verdict result = compare(self, n, &report);
    must(self->base->backend->vtable->copy(self->base, guard, out + n * self->list.bytes, GUARD, KILN__COPY_FROM_DEVICE,
                                           NULL, &report),
         "copy", &report);
    bool whole = guard[0] == KILN__FILL_POISON && memcmp(guard, guard + 1, GUARD - 1) == 0;
    if (result.wrong > 0 || !whole)
        printf("  WRONG: %s at %" PRIu64 " elements: %" PRIu64 " differ, the first is %" PRIu64 "%s\n", v->name, n,
               result.wrong, result.first, whole ? "" : "; it wrote behind the output");
    kiln_report_clear(&report);
    return result.wrong == 0 && whole;
}

/* Less than a word, a tile and some, and more than twice what a fixed grid takes in one step, each with a tail. */
static void check_all(bench *self)
{
    static const uint64_t counts[] = { 1, 4099, 1000003, 50000017 };
    unsigned right = 0, spilled = 0;
    for (size_t i = 0; i < self->list.count; i++) {
        access_variant *v = &self->list.variants[i];
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && !v->out; c++)
            if (counts[c] <= self->arrays.load.elements)
                v->out = !is_right(self, v, counts[c]);
        right += !v->out;
        spilled += v->code->local_bytes > 0;
    }
    printf(
        "  %u of %zu variants are right at every count, tails included; %u keep registers in memory; %.1f s so far\n",
        right, self->list.count, spilled, seconds(self));
}

/* ---- Heats and finals */

static uint64_t next_random(bench *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

static void shuffle(bench *self, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = next_random(self) % i, kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static void run_heats(bench *self)
{
    size_t order[ACCESS_VARIANTS_MAX];
    double best = INFINITY;
    for (size_t i = 0; i < self->list.count; i++) {
        self->list.variants[i].count = 0;
        self->list.variants[i].least = INFINITY;
    }
    for (int round = 0; round < self->heats; round++) {
        shuffle(self, order, self->list.count);
        for (size_t i = 0; i < self->list.count; i++) {
            access_variant *v = &self->list.variants[order[i]];
            if (v->out || (round >= TRIAL_ROUNDS && v->least > GOING_ON * best))
                continue;
            v->samples[v->count++] = sample(self, v, v);
            v->least = fmin(v->least, v->samples[v->count - 1]);
            best = round < TRIAL_ROUNDS ? fmin(best, v->least) : best;
        }
    }
    for (size_t i = 0; i < self->list.count; i++) {
        access_variant *v = &self->list.variants[i];
        v->median = v->count > 0 ? kiln__median(v->samples, v->count) : INFINITY;
        if (self->csv != NULL && !v->out)
            fprintf(self->csv, "%s,%s,%" PRIu64 ",\"%s\",%d,%u,%.6f,%.6f\n", self->list.op, self->list.dtype, self->n,
                    v->name, v->code->registers, v->count, v->least, v->median);
    }
}

static bool is_in(const finalist *finalists, size_t count, const access_variant *v)
{
    for (size_t i = 0; i < count; i++)
        if (finalists[i].variant == v)
            return true;
    return false;
}

/* The fastest of a kind that got through its heats and is not chosen yet; NULL if there is none. */
static access_variant *best_left(bench *self, access_kind wanted, const finalist *finalists, size_t count)
{
    access_variant *best = NULL;
    for (size_t i = 0; i < self->list.count; i++) {
        access_variant *v = &self->list.variants[i];
        if (v->kind == wanted && !v->out && !is_in(finalists, count, v) && (best == NULL || v->median < best->median))
            best = v;
    }
    return best;
}

/* Three of the template's, the default among them or besides, two of each other kind; and the copy. */
static size_t choose_finalists(bench *self, finalist *out, access_variant *copy)
{
    size_t count = 0;
    for (access_kind of = ACCESS_TEMPLATE; of < ACCESS_COPY; of++)
        for (int i = 0; i < (of == ACCESS_TEMPLATE ? 3 : 2); i++) {
            access_variant *v = best_left(self, of, out, count);
            if (v != NULL && is_right(self, v, self->n))
                out[count++].variant = v;
        }
    for (size_t i = 0; i < self->list.count; i++)
        if (self->list.variants[i].is_default && !is_in(out, count, &self->list.variants[i]) &&
            !self->list.variants[i].out)
            out[count++].variant = &self->list.variants[i];
    out[count++].variant = copy;
    return count;
}

static void run_finals(bench *self, finalist *finalists, size_t count, const access_variant *copy)
{
    size_t order[FINALISTS_MAX];
    for (int round = 0; round < self->finals; round++) {
        shuffle(self, order, count);
        for (size_t i = 0; i < count; i++) {
            finalist *f = &finalists[order[i]];
            f->own[round] = sample(self, f->variant, f->variant);
            f->after[round] = sample(self, f->variant, copy);
        }
    }
}

/* A median and its 95% interval, from the ranks of the samples. */
typedef struct spread {
    double low, middle, high;
} spread;

static spread spread_of(const double *times, const double *others, int count)
{
    double ratios[ACCESS_ROUNDS_MAX];
    int rank = (int)fmax(0, floor(count / 2.0 - 0.98 * sqrt(count)));
    for (int i = 0; i < count; i++)
        ratios[i] = others != NULL ? times[i] / others[i] : times[i];
    double middle = kiln__median(ratios, (size_t)count);
    return (spread){ ratios[rank], middle, ratios[count - 1 - rank] };
}

static void print_finals(const bench *self, const finalist *finalists, size_t count)
{
    const finalist *base = &finalists[0], *winner = NULL;
    double moved = (double)self->n * self->list.bytes * (self->list.inputs + 1), least = INFINITY;
    for (size_t i = 0; i < count; i++)
        if (finalists[i].variant->kind == ACCESS_TEMPLATE &&
            spread_of(finalists[i].own, NULL, self->finals).middle < spread_of(base->own, NULL, self->finals).middle)
            base = &finalists[i];
    printf("  %-62s %4s %8s %6s  %-24s %s\n", "", "regs", "ms", "GB/s", "time / best of template", "after a copy");
    for (size_t i = 0; i < count; i++) {
        const finalist *f = &finalists[i];
        double ms = spread_of(f->own, NULL, self->finals).middle;
        spread own = spread_of(f->own, base->own, self->finals), after = spread_of(f->after, base->after, self->finals);
        printf("  %-62s %4d %8.4f %6.0f  %.4f [%.4f, %.4f]  %.4f [%.4f, %.4f]%s\n", f->variant->name,
               f->variant->code != NULL ? f->variant->code->registers : 0, ms, moved / ms / 1e6, own.middle, own.low,
               own.high, after.middle, after.low, after.high, f == base ? "  <- base" : "");
        if (f->variant->kind != ACCESS_TEMPLATE && f->variant->kind != ACCESS_COPY && own.middle < least) {
            least = own.middle;
            winner = f;
        }
    }
    if (winner != NULL)
        printf("  best of the others: %s, %+.2f%%: %s\n", winner->variant->name, 100 * (least - 1),
               spread_of(winner->own, base->own, self->finals).high < 0.995 ? "MORE THAN 0.5% FASTER"
                                                                            : "not surely 0.5% faster");
    fflush(stdout);
}

static void compare_size(bench *self, uint64_t n)
{
    static access_variant copy = { .kind = ACCESS_COPY, .name = "cuMemcpyDtoD of as many bytes" };
    finalist *finalists = calloc(FINALISTS_MAX, sizeof(*finalists));
    check(finalists != NULL, "finalists", "out of memory");
    self->n = n;
    run_heats(self);
    size_t count = choose_finalists(self, finalists, &copy);
    printf("\n%s %s, %" PRIu64 " elements, %d heats, %d finals; heats done at %.1f s\n", self->list.op,
           self->list.dtype, n, self->heats, self->finals, seconds(self));
    if (count > 1) {
        run_finals(self, finalists, count, &copy);
        print_finals(self, finalists, count);
    }
    free(finalists);
}

/* ---- One op and dtype */

static void make_arrays(bench *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields asked, spec;
    kiln__load load;
    char text[ACCESS_TEXT];
    uint64_t most = 0;
    for (int i = 0; i < self->size_count; i++)
        most = self->sizes[i] > most ? self->sizes[i] : most;
    snprintf(text, sizeof(text), "op=%s dtype=%s", self->list.op, self->list.dtype);
    must(kiln_test_fields(&asked, &self->service->catalog, text, &report), text, &report);
    must(kiln__service_resolve(self->service, self->base, &asked, &spec, &report), text, &report);
    must(kiln__load_of_spec(&load, &spec, &(kiln_work){ .elements = most }, &report), text, &report);
    must(kiln__arrays_init(&self->arrays, self->base, &load, true, &report), text, &report);
    must(kiln__proof_init(&self->proof, self->service, &spec, &self->arrays, NULL, &report), text, &report);
    kiln_report_clear(&report);
}

static void free_codes(bench *self)
{
    for (size_t i = 0; i < self->list.code_count; i++)
        kiln__image_fini(&self->list.codes[i].image);
    free(self->list.codes);
    free(self->list.variants);
}

static void run_one(bench *self, const char *op, const char *dtype)
{
    self->list.op = op;
    self->list.dtype = dtype;
    self->list.inputs = strncmp(op, "add", 3) == 0 || strncmp(op, "mul", 3) == 0 ? 2 : 1;
    self->list.bytes = kiln__dtype_bytes(kiln__dtype_parse(dtype, strlen(dtype)));
    check(self->list.bytes > 0, dtype, "no such dtype");
    self->list.count = self->list.code_count = 0;
    self->list.variants = calloc(ACCESS_VARIANTS_MAX, sizeof(*self->list.variants));
    self->list.codes = calloc(ACCESS_VARIANTS_MAX, sizeof(*self->list.codes));
    check(self->list.variants != NULL && self->list.codes != NULL, "variants", "out of memory");
    check(access_list_make(&self->list), "variants", "there are too many");
    compile_all(self);
    printf("%s %s: %zu variants of %zu kernels compiled for %s, %.1f s so far\n", op, dtype, self->list.count,
           self->list.code_count, self->list.target, seconds(self));
    fflush(stdout);
    if (self->compile == NULL) {
        load_all(self);
        make_arrays(self);
        check_all(self);
        for (int i = 0; i < self->size_count; i++)
            compare_size(self, self->sizes[i]);
        kiln__proof_fini(&self->proof);
        kiln__arrays_fini(&self->arrays);
    }
    free_codes(self);
}

/* ---- The command */

static void usage(void)
{
    fprintf(stderr,
            "usage: bench_access_patterns [--op OP] [--dtype DTYPE] [--n N,N] [--heats N] [--finals N]\n"
            "                             [--kinds KIND,KIND] [--csv FILE] [--libcuda PATH] [--compile TARGET]\n");
    exit(2);
}

static int rounds_of(const char *value, int least)
{
    long number = strtol(value, NULL, 10);
    if (number < least || number > ACCESS_ROUNDS_MAX)
        usage();
    return (int)number;
}

static void parse_sizes(bench *self, const char *value)
{
    char *end;
    for (self->size_count = 0; *value != '\0' && self->size_count < SIZES_MAX; value = *end == ',' ? end + 1 : end) {
        self->sizes[self->size_count++] = strtoull(value, &end, 10);
        if (end == value || (*end != ',' && *end != '\0') || self->sizes[self->size_count - 1] == 0)
            usage();
    }
}

static void parse(bench *self, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (value == NULL)
            usage();
        else if (strcmp(name, "--op") == 0)
            self->only_op = value;
        else if (strcmp(name, "--dtype") == 0)
            self->only_dtype = value;
        else if (strcmp(name, "--n") == 0)
            parse_sizes(self, value);
        else if (strcmp(name, "--heats") == 0)
            self->heats = rounds_of(value, TRIAL_ROUNDS);
        else if (strcmp(name, "--finals") == 0)
            self->finals = rounds_of(value, 1);
        else if (strcmp(name, "--kinds") == 0)
            self->list.kinds = value;
        else if (strcmp(name, "--csv") == 0)
            check((self->csv = fopen(value, "w")) != NULL, value, "cannot be written");
        else if (strcmp(name, "--libcuda") == 0)
            self->libcuda = value;
        else if (strcmp(name, "--compile") == 0)
            self->compile = value;
        else
            usage();
    }
}

static void open_device(bench *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    must(kiln_device_open(&self->base, self->service, "cuda:0", &report), "cuda:0", &report);
    self->device = (const kiln__cuda_device *)self->base;
    self->list.target = self->base->target.name;
    expect(self, "cuCtxPushCurrent", self->device->driver->cuCtxPushCurrent(self->device->primary));
    void *opened = dlopen(self->libcuda != NULL ? self->libcuda : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = opened != NULL ? dlsym(opened, "cuKernelSetAttribute") : NULL;
    memcpy(&self->set_attribute, &symbol, sizeof(symbol));
    printf("%s, %u multiprocessors, %s\n", self->device->model, self->device->multiprocessors, self->list.target);
}

static void open_all(bench *self)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln__target target;
    options.libcuda = self->libcuda;
    must(kiln_open(&self->service, &options, &report), "kiln_open", &report);
    self->compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    check(self->compiler != NULL, "NVRTC", "out of memory");
    self->list.target = self->compile;
    if (self->compile == NULL)
        open_device(self);
    check(kiln__target_parse(self->list.target, strlen(self->list.target), &target), self->list.target,
          "no such target");
    self->list.sm = (unsigned)target.sm;
    if (self->csv != NULL)
        fprintf(self->csv, "op,dtype,n,variant,registers,samples,least_ms,median_ms\n");
}

int main(int argc, char **argv)
{
    static const char *const ops[] = { "hardsigmoid", "add" }, *const dtypes[] = { "f32", "bf16" };
    bench self = { .sizes = { 4096ull * 393216, 1 << 26 },
                   .size_count = 2,
                   .heats = HEATS,
                   .finals = FINALS,
                   .random = 0x9e3779b97f4a7c15u };
    parse(&self, argc, argv);
    self.begin = kiln__cpu_now_ns();
    open_all(&self);
    for (size_t o = 0; o < 2; o++)
        for (size_t d = 0; d < 2; d++)
            if ((self.only_op == NULL || o == 0) && (self.only_dtype == NULL || d == 0))
                run_one(&self, self.only_op != NULL ? self.only_op : ops[o],
                        self.only_dtype != NULL ? self.only_dtype : dtypes[d]);
    if (self.csv != NULL)
        fclose(self.csv);
    self.compiler->vtable->close(self.compiler);
    kiln_close(self.service);
    return 0;
}
