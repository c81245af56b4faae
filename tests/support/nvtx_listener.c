/* A profiler's part of NVTX, named in NVTX_INJECTION64_PATH: writes a line for each range to standard error. */
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

static int NVTX_API push(const char *name)
{
    fprintf(stderr, "push %s\n", name);
    return 0;
}

static int NVTX_API pop(void)
{
    fprintf(stderr, "pop\n");
    return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)(uintptr_t)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)(uintptr_t)pop;
    return 1;
}
