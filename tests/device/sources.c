/* Sources of the host's own on a real GPU: values, variables, more shared memory than is usual, static memory
 * included and wanted by two threads at once, cooperative launches and clusters. Prints what it has checked; status
 * 1 if anything is wrong. Needs a GPU, and NVRTC or a cache that has been filled with one. */
#include "support/launching.h"
#include "support/requesting.h"
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h" /* last: others have parameters of the name report */

enum { BLOCKS = 8, THREADS = 128, COUNT = BLOCKS * THREADS, ROOM = 64 << 10 };
enum { OWN = 32 << 10, OWN_WORDS = OWN / 4, LAUNCHES = 2000 }; /* OWN: static, and as much beside it */

static kiln_device *device;
static int wrong;

static const char text[] =
    "__constant__ int table[4];\n"
    "namespace ns { __device__ unsigned arrived; }\n"
    "template <int N> __global__ void fill(int *out) { out[blockIdx.x * blockDim.x + "
    "threadIdx.x] = table[N] + threadIdx.x; }\n"
    "extern \"C\" __global__ void room(int *out, int words)\n"
    "{\n"
    "    extern __shared__ int held[];\n"
    "    for (int i = threadIdx.x; i < words; i += blockDim.x)\n"
    "        held[i] = i;\n"
    "    __syncthreads();\n"
    "    out[blockIdx.x * blockDim.x + threadIdx.x] = held[words - 1 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void beside(int *out, int words)\n"
    "{\n"
    "    __shared__ int own[8192];\n"
    "    extern __shared__ int held[];\n"
    "    for (int i = threadIdx.x; i < words; i += blockDim.x)\n"
    "        held[i] = i;\n"
    "    for (int i = threadIdx.x; i < 8192; i += blockDim.x)\n"
    "        own[i] = 3 * i;\n"
    "    __syncthreads();\n"
    "    out[blockIdx.x * blockDim.x + threadIdx.x] = held[words - 1 - threadIdx.x] + own[8191 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void meet(int *out)\n" /* ends only if all blocks run at once */
    "{\n"
    "    if (threadIdx.x == 0) {\n"
    "        atomicAdd(&ns::arrived, 1);\n"
    "        while (*(volatile unsigned *)&ns::arrived < gridDim.x) {}\n"
    "    }\n"
    "    __syncthreads();\n"
    "    out[blockIdx.x * blockDim.x + threadIdx.x] = ns::arrived;\n"
    "}\n"
    "extern \"C\" __global__ void cluster(int *out)\n"
    "{\n"
    "    unsigned size = 1;\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "    asm volatile(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(size));\n"
    "#endif\n"
    "    out[blockIdx.x * blockDim.x + threadIdx.x] = size;\n"
    "}\n";
static const char *const functions[] = { "fill<2>", "room", "beside", "meet", "cluster", "&ns::arrived" };

static void check(const char *what, const int *got, int (*expected)(int thread))
{
    int bad = 0;
    for (int i = 0; i < COUNT; i++)
        bad += got[i] != expected(i % THREADS);
    printf("%-8s %s\n", what, bad == 0 ? "right" : "WRONG");
    wrong += bad != 0;
}

static int expect_fill(int thread)
{
    return 30 + thread;
}

static int expect_room(int thread)
{
    return ROOM / (int)sizeof(int) - 1 - thread;
}

static int expect_beside(int thread)
{
    return OWN_WORDS - 1 - thread + 3 * (OWN_WORDS - 1 - thread);
}

static int expect_meet(int thread)
{
    (void)thread;
    return BLOCKS;
}

static int expect_cluster(int thread)
{
    (void)thread;
    return 2;
}

static void launch(kiln_program *program, const char *name, const kiln_grid *grid, const void *const *arguments,
                   const size_t *sizes, uint32_t count)
{
    kiln_kernel *function;
    must(kiln_program_kernel(&function, program, name, &report), name);
    kiln_kernel_info facts = KILN_INIT(kiln_kernel_info);
    must(kiln_kernel_get_info(function, &facts), name);
    printf("%-8s parameters: %zu, registers: %d\n", name, facts.signature->param_count, facts.registers);
    must(kiln_test_launch_grid(function, grid, arguments, sizes, count, NULL, &report), name);
    if (kiln_test_launch_grid(function, grid, arguments, sizes, count + 1, NULL, &report) != KILN_EINVAL) {
        puts("an argument too many was taken");
        wrong++;
    }
    must(kiln_sync(device, &report), name);
    kiln_kernel_release(function);
}

static void read_back(int *got, const void *from)
{
    must(kiln_download(device, got, from, COUNT * sizeof(*got), &report), "copy");
}

static void show_blocks(kiln_program *program, const char *name, uint32_t shared_bytes)
{
    kiln_kernel *function;
    int blocks = 0;
    must(kiln_program_kernel(&function, program, name, &report), name);
    must(kiln_kernel_occupancy(&blocks, function, THREADS, shared_bytes, &report), name);
    printf("%-8s blocks at once with %u bytes: %d\n", name, (unsigned)shared_bytes, blocks);
    wrong += blocks < 1;
    kiln_kernel_release(function);
}

/* A thread that launches "room" again and again with an amount of its own. */
typedef struct roomer {
    kiln_kernel *function;
    uint32_t bytes;
    void *out;
    kiln_status status;
    kiln_report report;
} roomer;

static void *launch_often(void *data)
{
    roomer *self = data;
    int words = (int)(self->bytes / sizeof(int));
    const void *arguments[] = { &self->out, &words };
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = BLOCKS;
    grid.block[0] = THREADS;
    grid.shared_bytes = self->bytes;
    for (int i = 0; i < LAUNCHES && self->status == KILN_OK; i++)
        self->status = kiln_test_launch_grid(self->function, &grid, arguments, NULL, 2, NULL, &self->report);
    return NULL;
}

static void launch_on_threads(kiln_program *program)
{
    static int got[COUNT];
    roomer roomers[] = { { .bytes = 52 << 10, .report = KILN_INIT(kiln_report) },
                         { .bytes = 62 << 10, .report = KILN_INIT(kiln_report) } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        must(kiln_program_kernel(&roomers[i].function, program, "room", &report), "room");
        must(kiln_alloc(&roomers[i].out, device, sizeof(got), &report), "memory");
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, launch_often, &roomers[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        if (roomers[i].status != KILN_OK)
            printf("a thread that wants %u bytes: %s\n", (unsigned)roomers[i].bytes, roomers[i].report.message);
        wrong += roomers[i].status != KILN_OK;
        must(kiln_sync(device, &report), "room");
        read_back(got, roomers[i].out);
        for (int k = 0; k < COUNT; k++)
            wrong += got[k] != (int)(roomers[i].bytes / sizeof(int)) - 1 - k % THREADS;
        kiln_free(device, roomers[i].out);
        kiln_kernel_release(roomers[i].function);
        kiln_report_clear(&roomers[i].report);
    }
    printf("room     from two threads, %d launches each: %s\n", LAUNCHES, wrong == 0 ? "right" : "WRONG");
}

int main(void)
{
    static int got[COUNT];
    const int table[4] = { 10, 20, 30, 40 }, words = ROOM / (int)sizeof(int), own_words = OWN_WORDS;
    const unsigned zero = 0;
    kiln_service *service;
    kiln_program *program;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    kiln_source source = KILN_INIT(kiln_source);
    kiln_grid grid = KILN_INIT(kiln_grid);
    void *out, *address;
    size_t bytes;
    const void *arguments[] = { &out, &words, NULL };
    const size_t sizes[] = { sizeof(out), sizeof(words), 0 };
    source.text = text;
    source.functions = functions;
    source.function_count = sizeof(functions) / sizeof(functions[0]);
    source.cuda_headers = KILN_OFF;
    grid.grid[0] = BLOCKS;
    grid.block[0] = THREADS;

    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, "cuda:0", &report), "device");
    must(kiln_device_get_info(device, &info), "device");
    must(kiln_test_get_source(&program, service, device, &source, &report), "program");
    must(kiln_alloc(&out, device, sizeof(got), &report), "memory");
    must(kiln_program_global(&address, &bytes, program, "table", &report), "table");
    must(kiln_upload(device, address, table, bytes, &report), "table");
    must(kiln_program_global(&address, &bytes, program, "ns::arrived", &report), "arrived");
    must(kiln_upload(device, address, &zero, bytes, &report), "arrived");

    launch_on_threads(program); /* first: nothing has been permitted yet */
    launch(program, "fill<2>", &grid, arguments, sizes, 1);
    read_back(got, out);
    check("fill", got, expect_fill);
    grid.shared_bytes = ROOM;
    launch(program, "room", &grid, arguments, sizes, 2);
    read_back(got, out);
    check("room", got, expect_room);
    grid.shared_bytes = OWN; /* usual by itself, but not beside as much */
    show_blocks(program, "beside", OWN);
    launch(program, "beside", &grid, (const void *[]){ &out, &own_words }, sizes, 2);
    read_back(got, out);
    check("beside", got, expect_beside);
    grid.shared_bytes = 0;
    grid.cooperative = 1;
    launch(program, "meet", &grid, arguments, sizes, 1);
    read_back(got, out);
    check("meet", got, expect_meet);
    grid.cooperative = 0;
    if (strncmp(info.target, "sm_8", 4) != 0 && strcmp(info.target, "sm_75") != 0) {
        grid.cluster[0] = 2;
        grid.cluster[1] = grid.cluster[2] = 1;
        launch(program, "cluster", &grid, arguments, sizes, 1);
        read_back(got, out);
        check("cluster", got, expect_cluster);
    }
    kiln_free(device, out);
    kiln_program_release(program);
    kiln_close(service);
    return wrong != 0;
}
