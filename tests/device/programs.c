/* Runs the CUDA programs of tests/programs/ on a GPU and compares what comes out with what C says. A line for each;
 * status 1 if any is wrong or its headers are missing. Needs NVRTC and CUDA's headers (CCCL for five programs, here or
 * in a directory given by -I), or a cache that has been filled with them.
 *
 *     device_programs [-I DIR]... [--all-wrong] [NAME]...
 *
 * --all-wrong: status 0 if and only if every program is found wrong, which shows that each check looks (for a stand-in
 * driver). */
#include "programs.h"
#include "support/launching.h"
#include "support/programs.h"
#include "support/requesting.h"
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, HELD_MAX = 32, DIRECTORIES_MAX = 8, NOTE_SIZE = 192, SKIPPED = 77 };

typedef struct held {
    uint8_t *start; /* of the first guard */
    size_t bytes;   /* between the guards */
} held;

struct program_run {
    kiln_device *device;
    kiln_program *program;
    kiln_report *report;
    uint64_t random;
    held held[HELD_MAX];
    void *rooms[HELD_MAX];
    size_t held_count, room_count, compared;
    double worst; /* share of the bound that was used */
    bool exact, wrong;
    char note[NOTE_SIZE]; /* what is wrong first */
};

static void note(program_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!run->wrong)
        vsnprintf(run->note, sizeof(run->note), format, arguments);
    va_end(arguments);
    run->wrong = true;
}

/* There is no going on without. */
static void must(program_run *run, kiln_status status, const char *what)
{
    if (status == KILN_OK)
        return;
    fprintf(stderr, "device_programs: %s: %s: %s\n%s", what, kiln_status_name(status), run->report->message,
            run->report->log != NULL ? run->report->log : "");
    exit(2);
}

/* ---- Memory */

void *room(program_run *run, size_t bytes)
{
    void *memory = run->room_count < HELD_MAX ? calloc(1, bytes) : NULL;
    must(run, memory != NULL ? KILN_OK : KILN_ENOMEM, "host memory");
    return run->rooms[run->room_count++] = memory;
}

static uint64_t next_random(program_run *run)
{
    uint64_t z = (run->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float *random_floats(program_run *run, size_t count, float low, float high)
{
    float *values = room(run, count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] = low + (high - low) * (float)(next_random(run) >> 40) * 0x1p-24f;
    return values;
}

int *random_ints(program_run *run, size_t count, int low, int high)
{
    int *values = room(run, count * sizeof(*values));
    uint64_t span = (uint64_t)((int64_t)high - low + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = (int)(low + (int64_t)(next_random(run) % span));
    return values;
}

void copy_to(program_run *run, void *to, const void *from, size_t bytes)
{
    must(run, kiln_upload(run->device, to, from, bytes, run->report), "copy to the device");
}

static void copy_from(program_run *run, void *to, const void *from, size_t bytes)
{
    must(run, kiln_download(run->device, to, from, bytes, run->report), "copy from the device");
}

void *put(program_run *run, const void *from, size_t bytes)
{
    void *start;
    uint8_t *image = malloc(bytes + 2 * GUARD);
    must(run, image != NULL && run->held_count < HELD_MAX ? KILN_OK : KILN_ENOMEM, "host memory");
    memset(image, POISON, bytes + 2 * GUARD);
    if (from != NULL)
        memcpy(image + GUARD, from, bytes);
    must(run, kiln_alloc(&start, run->device, bytes + 2 * GUARD, run->report), "device memory");
    copy_to(run, start, image, bytes + 2 * GUARD);
    free(image);
    run->held[run->held_count++] = (held){ start, bytes };
    return (uint8_t *)start + GUARD;
}

void *poisoned(program_run *run, size_t bytes)
{
    return put(run, NULL, bytes);
}

void *take(program_run *run, const void *from, size_t bytes)
{
    void *copy = room(run, bytes);
    copy_from(run, copy, from, bytes);
    return copy;
}

static void check_guards(program_run *run)
{
    uint8_t guards[2 * GUARD];
    for (size_t i = 0; i < run->held_count; i++) {
        const held *at = &run->held[i];
        copy_from(run, guards, at->start, GUARD);
        copy_from(run, guards + GUARD, at->start + GUARD + at->bytes, GUARD);
        for (size_t k = 0; k < sizeof(guards); k++)
            if (guards[k] != POISON)
                note(run, "array %zu: something was written outside it", i);
    }
}

/* ---- Launching */

void *variable(program_run *run, const char *name, size_t bytes)
{
    void *address = NULL;
    size_t size = 0;
    must(run, kiln_program_global(&address, &size, run->program, name, run->report), name);
    if (size != bytes)
        note(run, "%s has %zu bytes, expected %zu", name, size, bytes);
    return address;
}

void launch_grid(program_run *run, const char *function, const kiln_grid *grid, const void *const *arguments)
{
    kiln_kernel *found;
    uint32_t count = 0;
    while (arguments[count] != NULL)
        count++;
    must(run, kiln_program_kernel(&found, run->program, function, run->report), function);
    must(run, kiln_test_launch_grid(found, grid, arguments, NULL, count, NULL, run->report), function);
    must(run, kiln_sync(run->device, run->report), function);
    kiln_kernel_release(found);
}

void launch(program_run *run, const char *function, uint32_t blocks, uint32_t threads, const void *const *arguments)
{
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = blocks;
    grid.block[0] = threads;
    launch_grid(run, function, &grid, arguments);
}

/* ---- Comparing */

void same(program_run *run, const void *got, const void *expected, size_t bytes)
{
    const uint8_t *a = got, *b = expected;
    run->compared += bytes;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            note(run, "byte %zu of %zu is %02x, expected %02x", i, bytes, a[i], b[i]);
            return;
        }
}

void near(program_run *run, const float *got, const double *expected, size_t count, double absolute, double relative)
{
    run->compared += count * sizeof(*got);
    run->exact = false;
    for (size_t i = 0; i < count; i++) {
        double bound = absolute + relative * fabs(expected[i]), off = fabs((double)got[i] - expected[i]);
        if (!(off <= bound)) {
            note(run, "element %zu of %zu is %.9g, expected %.9g within %.2g", i, count, (double)got[i], expected[i],
                 bound);
            return;
        }
        run->worst = fmax(run->worst, off / bound);
    }
}

uint16_t to_half(double value)
{
    int exponent;
    double magnitude = fabs(value), scaled = frexp(magnitude, &exponent);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (magnitude < 0x1p-14) /* subnormal: units of 2^-24 */
        return (uint16_t)(sign | (unsigned)nearbyint(ldexp(magnitude, 24)));
    unsigned mantissa =
        (unsigned)nearbyint(ldexp(scaled, 11)); /* 1024 to 2048, the latter carrying into the exponent */
    return (uint16_t)(sign | ((((unsigned)exponent + 14) << 10) + mantissa - 1024));
}

double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

uint16_t to_bfloat16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

float from_bfloat16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* ---- One program */

typedef struct driver {
    kiln_service *service;
    kiln_device *device;
    kiln_report report;
    const char *directories[DIRECTORIES_MAX + 2]; /* room for a program's own, and a NULL */
    size_t directory_count;
    int target; /* 90 for sm_90 */
    int ran, wrong, left_out;
    bool all_wrong;
} driver;

static void finish(program_run *run)
{
    for (size_t i = 0; i < run->held_count; i++)
        kiln_free(run->device, run->held[i].start);
    for (size_t i = 0; i < run->room_count; i++)
        free(run->rooms[i]);
    kiln_program_release(run->program);
}

static void print(const program_run *run, const char *name)
{
    if (run->wrong)
        printf("%-16s WRONG %s\n", name, run->note);
    else if (run->exact)
        printf("%-16s right %zu bytes, all bits\n", name, run->compared);
    else
        printf("%-16s right %zu bytes, at most %.3f of the bound\n", name, run->compared, run->worst);
    fflush(stdout);
}

/* False, after a word on it, where headers are missing. Ends the program where there is no compiler. */
static bool get_program(driver *setup, program_run *run, const program_source *source, const char *text)
{
    kiln_source given;
    program_fill(&given, source, text, setup->directories);
    kiln_status status = kiln_test_get_source(&run->program, setup->service, setup->device, &given, &setup->report);
    setup->directories[setup->directory_count] = NULL;
    if (status == KILN_ENOCOMPILER && setup->all_wrong) {
        puts("left out: there is no NVRTC");
        exit(SKIPPED);
    }
    if (status == KILN_ECOMPILE && source->cccl && strstr(setup->report.message, "cannot open source file") != NULL) {
        printf("%-16s left out: %s\n", source->name, setup->report.message);
        setup->left_out++;
        return false;
    }
    if (status == KILN_ENOCOMPILER && source->files > 0) {
        printf("%-16s left out: %s\n", source->name, setup->report.message);
        setup->left_out++;
        return false;
    }
    must(run, status, source->name);
    return true;
}

static program_check find_check(const char *name)
{
    const named_check *const files[] = { program_checks, algorithm_checks, library_checks };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        for (const named_check *at = files[i]; at->name != NULL; at++)
            if (strcmp(at->name, name) == 0)
                return at->check;
    return NULL;
}

static void check_program(driver *setup, const program_source *source)
{
    program_run run = { .device = setup->device, .report = &setup->report, .random = 1, .exact = true };
    program_check check = find_check(source->name);
    char *text = program_text(source);
    if (setup->target < source->least) {
        printf("%-16s left out: it is for sm_%d and newer\n", source->name, source->least);
        free(text);
        return;
    }
    if (text == NULL || check == NULL) {
        fprintf(stderr, "device_programs: %s: no such program in %s (set KILN_PROGRAMS)\n", source->name,
                program_directory());
        exit(2);
    }
    if (get_program(setup, &run, source, text)) {
        check(&run);
        check_guards(&run);
        if (run.compared == 0)
            note(&run, "nothing was compared");
        print(&run, source->name);
        setup->ran++;
        setup->wrong += run.wrong;
        finish(&run);
    }
    free(text);
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-I") == 0) {
            i++;
        } else if (argv[i][0] != '-') {
            any = true;
            if (strcmp(argv[i], name) == 0)
                return true;
        }
    }
    return !any;
}

static void parse(driver *setup, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all-wrong") == 0) {
            setup->all_wrong = true;
        } else if (strcmp(argv[i], "-I") == 0 && i + 1 < argc && setup->directory_count < DIRECTORIES_MAX) {
            setup->directories[setup->directory_count++] = argv[++i];
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "usage: device_programs [-I DIR]... [--all-wrong] [NAME]...\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    static driver setup = { .report = KILN_INIT(kiln_report) };
    program_run nothing = { .report = &setup.report };
    kiln_device_info info = KILN_INIT(kiln_device_info);
    parse(&setup, argc, argv);
    must(&nothing, kiln_open(&setup.service, NULL, &setup.report), "open");
    must(&nothing, kiln_device_open(&setup.device, setup.service, "cuda:0", &setup.report), "device");
    must(&nothing, kiln_device_get_info(setup.device, &info), "device");
    setup.target = atoi(info.target + strlen("sm_"));
    for (size_t i = 0; i < program_source_count; i++)
        if (is_wanted(program_sources[i].name, argc, argv))
            check_program(&setup, &program_sources[i]);
    printf("%d programs on %s (%s): %d wrong, %d left out\n", setup.ran, info.model, info.target, setup.wrong,
           setup.left_out);
    kiln_close(setup.service);
    if (setup.all_wrong)
        return setup.ran == 0 || setup.wrong != setup.ran;
    return setup.ran == 0 || setup.wrong + setup.left_out != 0;
}
