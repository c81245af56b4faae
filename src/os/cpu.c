/* Facts about the processor, memory limits of control groups, and clocks. */
#include "os/cpu.h"

#include "base/fpenv.h"
#include "base/text.h"
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

unsigned kiln__cpu_count(void)
{
    /* The kernel refuses a mask smaller than its own, so grow it until it fits. */
    for (unsigned bits = 1024; bits <= 1u << 20; bits *= 4) {
        cpu_set_t *set = CPU_ALLOC(bits);
        size_t size = CPU_ALLOC_SIZE(bits);
        if (!set)
            break;
        int count = sched_getaffinity(0, size, set) ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

#if defined(__x86_64__)

/* Some compilers lack names for the levels or for some features, so the features that only add instructions are read
 * from cpuid. Those that need the operating system's help (avx...) are asked from the compiler's run time. */
static const char *x86_level(void)
{
    enum { CMPXCHG16B = 1u << 13, MOVBE = 1u << 22, F16C = 1u << 29, LAHF = 1u << 0, LZCNT = 1u << 5 };
    unsigned a, b, basic = 0, d, extended = 0;
    if (!__get_cpuid(1, &a, &b, &basic, &d) || !__get_cpuid(0x80000001u, &a, &b, &extended, &d))
        return "x86-64";
    __builtin_cpu_init();
    if (!(basic & CMPXCHG16B) || !(extended & LAHF) || !__builtin_cpu_supports("popcnt") ||
        !__builtin_cpu_supports("ssse3") || !__builtin_cpu_supports("sse4.2"))
        return "x86-64";
    if (!(basic & MOVBE) || !(basic & F16C) || !(extended & LZCNT) || !__builtin_cpu_supports("avx2") ||
        !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return "x86-64-v2";
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return "x86-64-v3";
    return "x86-64-v4";
}

#endif

const char *kiln__cpu_isa(void)
{
#if defined(__x86_64__)
    return x86_level();
#elif defined(__aarch64__)
    return "armv8-a";
#else
#error "Kiln's cpu backend knows x86-64 and 64-bit Arm"
#endif
}

void kiln__cpu_model(char *out, unsigned size)
{
    static const char key[] = "model name";
    char line[512] = "";
    const char *model = NULL;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !model && fgets(line, sizeof line, file))
        if (!strncmp(line, key, sizeof key - 1) && (model = strchr(line, ':')) != NULL)
            model += strspn(model, ": \t");
    if (file)
        fclose(file);
    struct utsname name;
    if (!model)
        model = uname(&name) ? "unknown" : name.machine;
    kiln__text_copy(out, size, model);
    if (size > 0)
        out[strcspn(out, "\n")] = '\0';
}

/* The number at the start of a file, with the factor of a K or M behind it; `none` if there is no file or no number. */
static uint64_t read_number(const char *path, uint64_t none)
{
    char line[32] = "", *end = line;
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    if (*line < '0' || *line > '9')
        return none;
    uint64_t value = strtoull(line, &end, 10);
    return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : value;
}

/* The number behind a word at the beginning of a line; `none` if there is no such line. */
static uint64_t read_line_number(const char *path, const char *word, uint64_t none)
{
    char line[256];
    uint64_t value = none;
    size_t length = strlen(word);
    FILE *file = fopen(path, "re");
    while (file && value == none && fgets(line, sizeof line, file))
        if (strncmp(line, word, length) == 0)
            value = strtoull(line + length, NULL, 10);
    if (file)
        fclose(file);
    return value;
}

/* The limit of one group, without the memory of its processes if `free`: their files can be dropped. */
static uint64_t limit_of_directory(const char *directory, bool second, bool free)
{
    char path[4 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, second ? "memory.max" : "memory.limit_in_bytes");
    uint64_t limit = read_number(path, UINT64_MAX);
    if (!free || limit == UINT64_MAX)
        return limit;
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    uint64_t used = read_line_number(path, second ? "anon " : "total_rss ", 0);
    return limit > used ? limit - used : 1;
}

/* The groups above a group bind it as well. A container often does not see the named group: then only the root of the
 * mount tells. Shortens `group`. */
static uint64_t limit_of_group(const char *mount, char *group, bool second, bool free)
{
    uint64_t smallest = UINT64_MAX;
    for (;;) {
        char path[3 * PATH_MAX];
        snprintf(path, sizeof path, "%s%s", mount, group);
        uint64_t limit = limit_of_directory(path, second, free);
        if (limit < smallest)
            smallest = limit;
        char *slash = strrchr(group, '/');
        if (!slash)
            return smallest;
        *slash = '\0';
    }
}

/* A line is "0::/group" for version 2 and "4:memory:/group" for version 1. */
static uint64_t limit_of_line(const char *root, char *line, bool free)
{
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return UINT64_MAX;
    *group++ = '\0';
    controllers++;
    group[strcspn(group, "\n")] = '\0';
    if (*controllers && !strstr(controllers, "memory"))
        return UINT64_MAX;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, *controllers ? "/" : "", controllers);
    return limit_of_group(mount, group, !*controllers, free);
}

static uint64_t smallest_limit(const char *root, bool free)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t smallest = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        uint64_t limit = limit_of_line(root, line, free);
        if (limit < smallest)
            smallest = limit;
    }
    if (file)
        fclose(file);
    return smallest;
}

uint64_t kiln__cpu_memory_limit(const char *root)
{
    return smallest_limit(root, false);
}

uint64_t kiln__cpu_memory_free(const char *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    uint64_t kib = read_line_number(path, "MemAvailable:", UINT64_MAX);
    uint64_t machine = kib == UINT64_MAX ? kib : kib << 10, limit = smallest_limit(root, true);
    uint64_t smaller = machine < limit ? machine : limit;
    return smaller == UINT64_MAX ? 0 : smaller;
}

uint64_t kiln__cpu_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : UINT64_MAX;
    uint64_t limit = kiln__cpu_memory_limit("");
    uint64_t smaller = machine < limit ? machine : limit;
    return smaller == UINT64_MAX ? 0 : smaller;
}

/* A number of a cache's directory in sysfs; 0 if missing. */
static uint64_t read_cache_file(int index, const char *file)
{
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    return read_number(path, 0);
}

uint64_t kiln__cpu_cache_bytes(void)
{
    uint64_t best_level = 0, bytes = 0;
    for (int i = 0; i < 10; i++) {
        uint64_t level = read_cache_file(i, "level"), size = read_cache_file(i, "size");
        if (level >= best_level && size > 0) {
            best_level = level;
            bytes = size;
        }
    }
    long known = bytes ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
    return known > 0 ? (uint64_t)known : bytes;
}

uint64_t kiln__cpu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void kiln__cpu_sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

double kiln__cpu_ms(uint64_t ns)
{
    kiln__fpenv host;
    volatile double ms = 0;
    kiln__fpenv_enter(&host);
    ms = (double)ns / 1e6;
    kiln__fpenv_leave(&host);
    return ms;
}
