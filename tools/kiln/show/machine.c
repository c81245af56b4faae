#include "show/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/capture.h"

/* Runs a tool with its flags on a file of those bytes. */
static int run_on(char **out, size_t *length, const char *tool, const char *const *flags, const void *data, size_t size)
{
    char *path = NULL;
    const char *words[8] = { tool };
    size_t count = 1;
    *out = NULL;
    int status = capture_file(&path, ".bin", data, size);
    while (*flags)
        words[count++] = *flags++;
    words[count] = path;
    if (!status)
        status = capture_run(out, length, words);
    if (path)
        unlink(path);
    free(path);
    return status;
}

static int disassemble_with(char **out, size_t *length, const char *name, const char *const *flags, const void *data,
                            size_t size)
{
    char *tool = NULL;
    if (!capture_find(&tool, name))
        return -1;
    int status = run_on(out, length, tool, flags, data, size);
    free(tool);
    return status;
}

int machine_disassemble(char **out, size_t *length, const kiln_program *program)
{
    static const char *const nvdisasm[] = { "-c", NULL };
    static const char *const cuobjdump[] = { "-sass", NULL };
    static const char *const objdump[] = { "-d", "--no-show-raw-insn", NULL };
    const void *data = NULL;
    size_t size = 0;
    *out = NULL;
    if (kiln_program_section(&data, &size, program, "cubin") == KILN_OK) {
        int status = disassemble_with(out, length, "nvdisasm", nvdisasm, data, size);
        if (status < 0)
            status = disassemble_with(out, length, "cuobjdump", cuobjdump, data, size);
        return status < 0 ? fail(STATUS_FAILED, "no nvdisasm and no cuobjdump found on PATH or in /usr/local/cuda/bin; "
                                                "install cuda-nvdisasm or cuda-cuobjdump of the CUDA toolkit")
                          : status;
    }
    if (kiln_program_section(&data, &size, program, "object") != KILN_OK)
        return fail(STATUS_FAILED, "the compiled result holds no machine code");
    int status = disassemble_with(out, length, "objdump", objdump, data, size);
    return status < 0 ? fail(STATUS_FAILED, "no objdump found on PATH; install binutils") : status;
}

static int number_after(const char *line, const char *end, const char *label)
{
    const char *found = memmem(line, (size_t)(end - line), label, strlen(label));
    return found ? atoi(found + strlen(label)) : -1;
}

/* Reads " Function NAME:" and, on the next line, "REG:16 STACK:0 SHARED:0 LOCAL:0 ...". */
static size_t parse_usage(machine_usage **out, const char *text)
{
    static const char marker[] = "Function ";
    size_t count = 0;
    *out = NULL;
    for (const char *at = strstr(text, marker); at; at = strstr(at, marker)) {
        at += strlen(marker);
        const char *next = strchr(at, '\n');
        if (!next)
            break;
        const char *end = strchrnul(next + 1, '\n');
        *out = need_array(*out, count + 1, sizeof(**out));
        machine_usage *usage = &(*out)[count++];
        snprintf(usage->name, sizeof(usage->name), "%.*s", (int)strcspn(at, ":\n"), at);
        usage->registers = number_after(next, end, "REG:");
        usage->stack = number_after(next, end, "STACK:");
        usage->shared = number_after(next, end, "SHARED:");
        usage->local = number_after(next, end, "LOCAL:");
    }
    return count;
}

bool machine_resources(machine_usage **out, size_t *count, const kiln_program *program)
{
    static const char *const flags[] = { "--dump-resource-usage", NULL };
    const void *data = NULL;
    size_t size = 0, length = 0;
    char *tool = NULL, *text = NULL;
    *out = NULL;
    *count = 0;
    if (kiln_program_section(&data, &size, program, "cubin") != KILN_OK || !capture_find(&tool, "cuobjdump"))
        return false;
    if (run_on(&text, &length, tool, flags, data, size) == STATUS_DONE)
        *count = parse_usage(out, text);
    free(text);
    free(tool);
    return *count > 0;
}
