/* Cubins: any bytes, or edits of a cubin that NVRTC makes when the target begins. Without NVRTC only the first. */
#include "gpu/cubin.h"
#include "fuzz/fuzz.h"
#include <kiln/kernel.h>
#include <stdbool.h>

/* The first byte of an input. */
enum { RAW, EDITED, KINDS };

/* Where an edit counts from. In a section, the high byte of the offset is its number. */
enum { FILE_START, SECTION_TABLE, SECTION, SECTION_FURTHER, PLACES, CUT = 0x80 };

enum { PARAMETERS_MOST = 8, THREADS_MOST = 1024, MARK = 0x5A };

/* Shared and local memory, bounds and sizes of blocks, parameters in both forms, a function and a variable. */
static const char source_text[] =
    "struct large { char bytes[5000]; };\n"
    "__device__ int table[4];\n"
    "__device__ __noinline__ float lookup(const float *own, int i) { return own[i & 63] + table[i & 3]; }\n"
    "extern \"C\" __global__ void __launch_bounds__(128) bounded(float *out, const float *in, int n)\n"
    "{\n"
    "    __shared__ float part[128];\n"
    "    float own[64];\n"
    "    for (int i = 0; i < 64; i++) own[i] = in[i * n];\n"
    "    part[threadIdx.x] = lookup(own, n);\n"
    "    __syncthreads();\n"
    "    out[threadIdx.x] = part[127 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void wide(char *out, large in) { out[threadIdx.x] = in.bytes[threadIdx.x]; }\n"
    "extern \"C\" __global__ void none() { table[0] = 1; }\n";

static const struct {
    const char *name;
    int parameters, max_threads;
} kernels[] = { { "bounded", 3, 128 }, { "wide", 2, THREADS_MOST }, { "none", 0, THREADS_MOST } };

static uint8_t *made; /* the cubin; NULL: there is no NVRTC */
static size_t made_length;

/* A copy of the exact length, so that a sanitizer sees reads beyond the end. */
static uint8_t *copy_of(const void *bytes, size_t length)
{
    uint8_t *copy = malloc(length > 0 ? length : 1);
    FUZZ_REQUIRE(copy != NULL, "out of memory");
    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}

static void make_cubin(void)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_source source = KILN_INIT(kiln_source);
    kiln_request request = KILN_INIT(kiln_request);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    kiln_program *program;
    const void *cubin;
    options.cache_dir = "";
    options.isolate = KILN_ISOLATE_NEVER;
    source.text = source_text;
    source.target = "sm_90";
    request.source = &source;
    request.goal = KILN_BUILD;
    FUZZ_REQUIRE(kiln_open(&service, &options, NULL) == KILN_OK, "a service");
    kiln_status status = kiln_get(&program, service, &request, &report);
    FUZZ_REQUIRE(status == KILN_OK || status == KILN_ENOCOMPILER, "a cubin: %s\n%s", report.message,
                 report.log != NULL ? report.log : "");
    if (kiln_program_section(&cubin, &made_length, program, "cubin") == KILN_OK)
        made = copy_of(cubin, made_length);
    kiln_report_clear(&report);
    kiln_program_release(program);
    kiln_close(service);
}

/* ---- Edits */

static size_t place_of(unsigned place, unsigned offset)
{
    Elf64_Ehdr header = kiln__elf_header(made);
    if (place == FILE_START)
        return offset;
    if (place == SECTION_TABLE)
        return header.e_shoff + offset;
    Elf64_Shdr section = kiln__elf_section(made, (offset >> 8) % header.e_shnum);
    return section.sh_offset + (offset & 0xff) + (place == SECTION_FURTHER ? 0x100 : 0);
}

/* An edit is an offset of two bytes, a byte with the place and a number less 1, and so many bytes; or a length and CUT.
 * Returns the edited cubin, of exactly *length bytes. */
static uint8_t *edit_cubin(const uint8_t *edits, size_t size, size_t *length)
{
    uint8_t *bytes = copy_of(made, made_length);
    *length = made_length;
    while (size >= 3) {
        unsigned offset = edits[0] | (unsigned)edits[1] << 8, how = edits[2];
        size_t count = (how & CUT) != 0 ? 0 : (size_t)(how >> 4) + 1;
        edits += 3;
        size -= 3;
        if ((how & CUT) != 0 && offset < *length)
            *length = offset;
        size_t at = place_of(how % PLACES, offset);
        for (size_t i = 0; i < count && i < size; i++)
            if (at + i < made_length)
                bytes[at + i] = edits[i];
        edits += count < size ? count : size;
        size -= count < size ? count : size;
    }
    uint8_t *exact = copy_of(bytes, *length);
    free(bytes);
    return exact;
}

/* ---- What is required */

/* Returns how many there are. */
static int require_parameters(const void *bytes, const char *name)
{
    size_t sizes[PARAMETERS_MOST + 1];
    memset(sizes, MARK, sizeof(sizes));
    int count = kiln__cubin_parameters(bytes, name, sizes, PARAMETERS_MOST);
    FUZZ_REQUIRE(count >= -1 && count < PARAMETERS_MOST, "%d parameters", count);
    for (int i = 0; i < count; i++)
        FUZZ_REQUIRE(sizes[i] > 0 && sizes[i] <= UINT16_MAX, "a parameter of %zu bytes", sizes[i]);
    for (size_t i = 0; i < sizeof(size_t); i++)
        FUZZ_REQUIRE(((uint8_t *)&sizes[PARAMETERS_MOST])[i] == MARK, "no more than there is room for");
    return count;
}

static void require_kernel(void *data, const char *name)
{
    kiln__cubin_usage usage;
    kiln__cubin_usage_of(data, name, &usage);
    FUZZ_REQUIRE(usage.registers >= -1 && usage.stack_bytes >= -1, "%d registers, %d bytes of stack", usage.registers,
                 usage.stack_bytes);
    FUZZ_REQUIRE(usage.shared_bytes >= 0, "%d shared bytes of a kernel", usage.shared_bytes);
    FUZZ_REQUIRE(usage.max_threads >= 0 && usage.max_threads <= THREADS_MOST && usage.block_threads >= 0 &&
                     usage.block_threads <= THREADS_MOST,
                 "blocks of %d to %d threads", usage.block_threads, usage.max_threads);
    FUZZ_REQUIRE(kiln__cubin_count(data, name) > 0, "a kernel counts");
    kiln__cubin_has_entry(data, name);
    require_parameters(data, name);
}

static void require_definition(void *data, const char *name)
{
    kiln__cubin_count(data, name);
}

static void require_sound(uint8_t *bytes, size_t length)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    if (!kiln__cubin_check(bytes, length, reason)) {
        FUZZ_REQUIRE(reason[0] != '\0' && strchr(reason, '\n') == NULL, "a refusal says why in a line: %s", reason);
        return;
    }
    kiln__cubin_kernels(bytes, require_kernel, bytes);
    kiln__cubin_definitions(bytes, require_definition, bytes);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        kiln__cubin_usage usage;
        kiln__cubin_usage_of(bytes, kernels[i].name, &usage);
        kiln__cubin_has_entry(bytes, kernels[i].name);
        require_parameters(bytes, kernels[i].name);
    }
}

/* As NVRTC made it, a cubin tells all. */
static void require_told(void)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        const char *name = kernels[i].name;
        kiln__cubin_usage usage;
        kiln__cubin_usage_of(made, name, &usage);
        FUZZ_REQUIRE(kiln__cubin_has_entry(made, name) && kiln__cubin_count(made, name) == 1, "%s is there once", name);
        FUZZ_REQUIRE(require_parameters(made, name) == kernels[i].parameters, "the parameters of %s", name);
        FUZZ_REQUIRE(usage.registers > 0 && usage.stack_bytes >= (i == 0 ? 256 : 0) &&
                         usage.shared_bytes == (i == 0 ? 512 : 0) && usage.max_threads == kernels[i].max_threads,
                     "%s: %d registers, %d bytes of stack, %d shared, %d threads", name, usage.registers,
                     usage.stack_bytes, usage.shared_bytes, usage.max_threads);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    if (!begun) {
        begun = true;
        make_cubin();
        if (made != NULL)
            require_told();
    }
    bool edited = size > 0 && data[0] % KINDS == EDITED;
    if (size == 0 || (edited && made == NULL))
        return -1;
    size_t length = size - 1;
    uint8_t *bytes = edited ? edit_cubin(data + 1, size - 1, &length) : copy_of(data + 1, length);
    require_sound(bytes, length);
    free(bytes);
    return 0;
}
