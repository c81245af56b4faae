/* Runs disassemblers. */
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
