#include "programs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kiln_header config = { "wild/config.h", "#pragma once\n#define WILD_SCALE 2.0f\n" };

const program_source program_sources[] = {
    { .name = "relu", .functions = { "relu_kernel" } },
    { .name = "hardsigmoid", .functions = { "hardsigmoid_kernel" } },
    { .name = "saxpy", .functions = { "saxpy" } },
    { .name = "vector_add" }, /* its function is extern "C" */
    { .name = "transpose", .functions = { "transpose" } },
    { .name = "matmul", .functions = { "matmul_tiled" } },
    { .name = "softmax", .functions = { "softmax_kernel" } },
    { .name = "layernorm", .functions = { "layernorm_forward" } },
    { .name = "block_reduce", .functions = { "block_sum<float, 128>", "block_sum<int, 256>" }, .cccl = 1 },
    { .name = "warp_scan", .functions = { "warp_inclusive_scan" }, .cccl = 1 },
    { .name = "tiled_partition", .functions = { "reduce_tiles" }, .cccl = 1 },
    { .name = "grid_sync", .cccl = 1 },
    { .name = "cluster", .functions = { "cluster_sum" }, .least = 90, .cccl = 1 },
    { .name = "polynomial", .functions = { "eval_poly" } },
    { .name = "histogram", .functions = { "histogram_smem_atomics" } },
    { .name = "half2_add", .functions = { "add_half2" } },
    { .name = "gelu_bf16", .functions = { "gelu_bf16" } },
    { .name = "scale", .functions = { "scale<float, 4>", "scale<double, 2>" } },
    { .name = "particles", .functions = { "integrate" } },
    { .name = "counter", .functions = { "count_above" } },
    { .name = "compact", .functions = { "compact_warp" } },
    { .name = "dot_fp16", .functions = { "dot_half" } },
    { .name = "index64", .functions = { "gather64" } },
    { .name = "functor", .functions = { "transform<Square>", "transform<ClampTo>" } },
    { .name = "headers", .functions = { "lengths" }, .header = &config, .own_tree = 1 },
    { .name = "bounded", .functions = { "block_min" }, .option = "--maxrregcount=32" },
    { .name = "inline_ptx", .functions = { "mix" } },
    { .name = "print", .functions = { "report" } },
    { .name = "version", .functions = { "differences" } },
    { .name = "infinity", .functions = { "masked_max" } },
    { .name = "helpers" },
    { .name = "own_types" },
    { .name = "marked" },
    { .name = "formats", .functions = { "check_sums" } },
    { .name = "quadratic", .functions = { "roots" }, .cccl = 1 },
    { .name = "median", .functions = { "median" }, .cccl = 1 },
    { .name = "events", .cccl = 1 },
    { .name = "windows", .cccl = 1 },
    { .name = "tickets", .cccl = 1 },
    { .name = "dft", .cccl = 1 },
    { .name = "morton", .cccl = 1 },
    { .name = "siblings" },
    { .name = "fir", .functions = { "fir<Taps{1, -2, 1, '+'}>", "fir<Taps{ 0, 3, 1, '-' }>" }, .option = "-std=c++20" },
    { .name = "group_by", .cccl = 1 },
    { .name = "bitonic_sort" },
    { .name = "stencil", .functions = { "heat_step" } },
    { .name = "spmv_csr", .functions = { "spmv<double, int>" } },
    { .name = "scan", .functions = { "scan_blocks" } },
    { .name = "rmsnorm_fp16", .functions = { "rmsnorm_half<256>" } },
    { .name = "rotary" },
    { .name = "argmax", .functions = { "argmax" } },
    { .name = "life" },
    { .name = "philox", .functions = { "philox_fill" } },
    { .name = "dp4a", .functions = { "quantize", "dot_rows" } },
    { .name = "wmma", .functions = { "gemm_wmma" } },
    { .name = "async_copy", .functions = { "tile_sums<128>" } },
    { .name = "bfs", .functions = { "bfs_level", "&frontier_size" } },
    { .name = "atomic_double", .functions = { "sum_by_key<unsigned char>" } },
    { .name = "tree_launch", .functions = { "quicksort", "&launches" }, .option = "-rdc=true", .files = 1 },
    { .name = "two_files", .functions = { "count_bins", "reset_bins<16>", "&bins" }, .files = 2 },
    { .name = "lto_filter", .functions = { "hash_all" }, .option = "-dlto", .files = 2 },
};
const size_t program_source_count = sizeof(program_sources) / sizeof(program_sources[0]);

const char *program_directory(void)
{
    const char *named = getenv("KILN_PROGRAMS");
    return named != NULL ? named : KILN_PROGRAMS_DIR;
}

enum { ROOM = 64 << 10 };

/* Bytes that were read, 0 where there is no such file. */
static size_t read_program(const char *folder, const char *name, char *out)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s%s.cu", program_directory(), folder, name);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(out, 1, ROOM - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    return length;
}

char *program_text(const program_source *program)
{
    char *text = calloc(2, ROOM);
    size_t length = text != NULL ? read_program("", program->name, text) : 0;
    if (length > 0 && (program->files < 2 || read_program("parts/", program->name, text + length + 1) > 0))
        return text;
    free(text);
    return NULL;
}

void program_fill(kiln_source *out, const program_source *program, const char *text, const char **include_dirs)
{
    static char own_tree[PATH_MAX];
    static _Thread_local kiln_part part;
    *out = (kiln_source)KILN_INIT(kiln_source);
    out->name = program->name;
    out->text = text;
    out->functions = program->functions;
    while (out->function_count < PROGRAM_FUNCTIONS_MAX && program->functions[out->function_count] != NULL)
        out->function_count++;
    out->options = &program->option;
    out->option_count = program->option != NULL;
    out->headers = program->header;
    out->header_count = program->header != NULL;
    if (program->files == 2) {
        part = (kiln_part){ program->name, text + strlen(text) + 1, NULL };
        out->parts = &part;
        out->part_count = 1;
    }
    out->directory = program_directory();
    out->include_dirs = include_dirs;
    while (include_dirs[out->include_dir_count] != NULL)
        out->include_dir_count++;
    if (program->own_tree) {
        snprintf(own_tree, sizeof(own_tree), "%s/include", program_directory());
        include_dirs[out->include_dir_count++] = own_tree;
    }
}
