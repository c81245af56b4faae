#include "service/kernel.h"

#include "base/alloc.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/obtain.h"
#include "template/signature.h"
#include <string.h>

kiln_kernel *kiln__kernel_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module, const kiln__unit *unit)
{
    kiln_kernel *kernel = kiln__calloc(1, sizeof(*kernel));
    char *spec = kiln__strdup(unit->spec);
    kiln__plan *plan = kiln__memdup(unit->plan, unit->plan->total);
    kiln_signature *signature = plan != NULL ? kiln__signature_planned(plan) : NULL;
    if (kernel == NULL || spec == NULL || signature == NULL) {
        device->backend->vtable->unload(module);
        kiln__free(signature);
        kiln__free(plan);
        kiln__free(kernel);
        kiln__free(spec);
        return NULL;
    }
    atomic_init(&kernel->refs, 1);
    kernel->generation = kiln__fork_generation();
    kernel->vtable = device->backend->vtable;
    kernel->module = module;
    kernel->rule = unit->rule;
    kernel->plan = plan;
    kernel->signature = signature;
    kernel->entry_count = unit->rule.entry_count;
    for (uint32_t i = 0; i < kernel->entry_count; i++)
        kernel->odd[i] = unit->rule.entries[i].align - 1;
    kernel->runtime = kiln__runtime_retain(runtime);
    kernel->device = device;
    kernel->spec = spec;
    kernel->target = unit->target;
    return kernel;
}

kiln_kernel *kiln__kernel_of_function(kiln__loaded *program, const kiln__function *function)
{
    kiln_kernel *kernel = kiln__calloc(1, sizeof(*kernel));
    kiln_signature *signature = kernel != NULL ? kiln__signature_of_bytes(function->sizes, function->parameters) : NULL;
    if (signature == NULL) {
        kiln__free(kernel);
        return NULL;
    }
    atomic_init(&kernel->refs, 1);
    kernel->generation = kiln__fork_generation();
    kernel->vtable = program->vtable;
    kernel->module = program->module;
    kernel->program = kiln__loaded_retain(program);
    kernel->function = function;
    kernel->signature = signature;
    kernel->device = program->device;
    kernel->spec = program->spec;
    kernel->target = program->target;
    kernel->origin = program->origin;
    kernel->compile_ms = program->compile_ms;
    return kernel;
}

void kiln__kernel_info(const kiln_kernel *kernel, kiln_kernel_info *out)
{
    const kiln__function_vtable *functions = kernel->vtable->functions;
    kiln__function_facts facts = { -1, -1, -1, -1, -1 };
    const char *entry = kernel->entry_count > 0 ? kernel->rule.entries[0].name : "";
    if (functions != NULL)
        functions->info(kernel->module, kernel->function != NULL ? kernel->function->number : 0, &facts);
    out->name = kernel->function != NULL ? kernel->function->name : entry;
    out->symbol = kernel->function != NULL ? kernel->function->symbol : entry;
    out->spec = kernel->spec;
    out->device = kernel->device->name;
    out->origin = kernel->origin;
    out->origin_name = kiln__origin_name(kernel->origin);
    out->compile_ms = kernel->compile_ms;
    out->signature = kernel->signature;
    memcpy(out->block, kernel->rule.block, sizeof(out->block));
    out->tile = kernel->rule.tile;
    out->max_threads = facts.max_threads;
    out->registers = facts.registers;
    out->local_bytes = facts.local_bytes;
    out->shared_bytes = facts.shared_bytes;
    out->constant_bytes = facts.constant_bytes;
}

kiln_kernel *kiln__kernel_retain(kiln_kernel *kernel)
{
    if (kernel != NULL)
        atomic_fetch_add_explicit(&kernel->refs, 1, memory_order_relaxed);
    return kernel;
}

void kiln__kernel_release(kiln_kernel *kernel)
{
    if (kernel == NULL || atomic_fetch_sub_explicit(&kernel->refs, 1, memory_order_acq_rel) != 1)
        return;
    KILN__NO_CANCEL;
    if (kernel->program != NULL) {
        kiln__loaded_release(kernel->program);
        kiln__free(kernel->signature);
        kiln__free(kernel);
        return;
    }
    kernel->vtable->unload(kernel->module);
    kiln__runtime_release(kernel->runtime);
    kiln__free(kernel->spec);
    kiln__free(kernel->signature);
    kiln__free((void *)kernel->plan);
    kiln__free(kernel);
}
