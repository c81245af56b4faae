/* Runs disassemblers and reads their output. */
#include "show/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/capture.h"
#include "kernels/built.h"

/* Runs a tool with its flags, at most two, on a file of those bytes. Returns as capture_run does; or -1, quietly, where
 * it is not installed. */
static int run_tool(char **out, size_t *length, const char *name, const char *flag, const char *other_flag,
                    const void *data, size_t size)
{
    char *path = NULL;
    const char *tool = capture_find(name);
    if (!tool)
        return -1;
    int status = capture_file(&path, ".bin", data, size);
    if (status)
        return status;
    const char *const words[] = { tool, flag, other_flag ? other_flag : path, other_flag ? path : NULL, NULL };
    status = capture_run(out, length, words);
    unlink(path);
    return status;
}

int machine_disassemble(char **out, size_t *length, const kiln_program *program)
{
    size_t size = 0;
    const void *data = built_section(&size, program, "cubin");
    if (data) {
        int status = run_tool(out, length, "nvdisasm", "-c", NULL, data, size);
        if (status < 0)
            status = run_tool(out, length, "cuobjdump", "-sass", NULL, data, size);
        return status < 0 ? fail(STATUS_FAILED, "no nvdisasm and no cuobjdump found on PATH or in /usr/local/cuda/bin; "
                                                "install cuda-nvdisasm or cuda-cuobjdump of the CUDA toolkit")
                          : status;
    }
    data = built_section(&size, program, "object");
    if (!data)
        return fail(STATUS_FAILED, "the compiled result holds no machine code");
    int status = run_tool(out, length, "objdump", "-d", "--no-show-raw-insn", data, size);
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
        (*out)[count++] = (machine_usage){ need_format("%.*s", (int)strcspn(at, ":\n"), at),
                                           number_after(next, end, "REG:"), number_after(next, end, "STACK:"),
                                           number_after(next, end, "SHARED:"), number_after(next, end, "LOCAL:") };
    }
    return count;
}

bool machine_resources(machine_usage **out, size_t *count, const kiln_program *program)
{
    size_t size = 0, length = 0;
    char *text = NULL;
    const void *data = built_section(&size, program, "cubin");
    bool told = data && run_tool(&text, &length, "cuobjdump", "--dump-resource-usage", NULL, data, size) == STATUS_DONE;
    *count = told ? parse_usage(out, text) : 0;
    return *count > 0;
}
