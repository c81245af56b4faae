#include "service/kernel.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "os/cancel.h"
#include <string.h>

enum { OUTPUT_ALIGN = 8 };

struct kiln__kernel_node {
    kiln__kernel_node *next;
    uint64_t hash, generation;
    kiln_kernel *kernel;
    size_t length;
    unsigned char key[];
};

kiln_kernel *kiln__kernel_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module, const kiln__unit *unit)
{
    kiln_kernel *kernel = kiln__calloc(1, sizeof(*kernel));
    char *spec = kiln__strdup(unit->spec);
    kiln__plan *plan = unit->plan != NULL ? kiln__memdup(unit->plan, unit->plan->total) : NULL;
    if (kernel == NULL || spec == NULL || (plan == NULL && unit->plan != NULL)) {
        device->backend->vtable->unload(module);
        kiln__free(plan);
        kiln__free(kernel);
        kiln__free(spec);
        return NULL;
    }
    atomic_init(&kernel->refs, 1);
    kernel->vtable = device->backend->vtable;
    kernel->module = module;
    kernel->rule = unit->rule;
    kernel->own_output = unit->rule.output_bytes > 0;
    kernel->plan = plan;
    kernel->most = plan != NULL ? 0 : (uint64_t)INT64_MAX / unit->rule.element_size;
    kernel->inputs = unit->rule.inputs;
    kernel->element_size = unit->rule.element_size;
    kernel->entry_count = unit->rule.entry_count;
    for (uint32_t i = 0; i < kernel->entry_count; i++)
        kernel->odd[i] = unit->rule.entries[i].align - 1;
    kernel->runtime = kiln__runtime_retain(runtime);
    kernel->device = device;
    kernel->spec = spec;
    return kernel;
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
    kernel->vtable->unload(kernel->module);
    kiln__runtime_release(kernel->runtime);
    kiln__free(kernel->spec);
    kiln__free(kernel->plan);
    kiln__free(kernel);
}

static kiln_status refuse_launch(kiln_report *report, kiln_status status, const char *what)
{
    return kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, "%s", what);
}

/* Equal ranges are in place and fine; ranges that share only some bytes would read what was already written. */
static bool overlaps_partly(const void *out, const void *in, uint64_t bytes)
{
    uintptr_t a = (uintptr_t)out, b = (uintptr_t)in;
    return a != b && (a < b ? b - a : a - b) < bytes;
}

/* An output that is no array like the inputs shares no byte with them, and may hold numbers of 64 bits. */
static kiln_status check_output(const kiln_kernel *kernel, uint64_t n, const void *out, const void *const *in,
                                kiln_report *report)
{
    uintptr_t a = (uintptr_t)out;
    if ((a & (OUTPUT_ALIGN - 1)) != 0)
        return refuse_launch(report, KILN_EALIGN, "out is not aligned to the 8 bytes that this template needs");
    for (uint32_t i = 0; i < kernel->inputs; i++) {
        uintptr_t b = (uintptr_t)in[i];
        if (a < b ? b - a < kernel->rule.output_bytes : a - b < n * kernel->element_size)
            return refuse_launch(report, KILN_EOVERLAP, "out and an input overlap, which this template does not allow");
    }
    return KILN_OK;
}

static kiln_status refuse_input(const kiln_kernel *kernel, uint32_t i, const void *in, kiln_report *report)
{
    if (in == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "in[%u] is NULL: the kernel reads %u arrays",
                          (unsigned)i, (unsigned)kernel->inputs);
    return kiln__fail(report, KILN_EOVERLAP, KILN__STAGE_LAUNCH, 0,
                      "out and in[%u] partly overlap: use the same pointer for both, or separate arrays", (unsigned)i);
}

static kiln_status refuse_alignment(const kiln_kernel *kernel, uintptr_t bits, kiln_report *report)
{
    if (bits & (kernel->element_size - 1))
        return kiln__fail(report, KILN_EALIGN, KILN__STAGE_LAUNCH, 0,
                          "a pointer is not aligned to its elements of %u bytes", (unsigned)kernel->element_size);
    return refuse_launch(report, KILN_EALIGN, "no entry point of the template takes pointers of this alignment");
}

kiln_status kiln__kernel_launch(const kiln_kernel *kernel, uint64_t n, void *out, const void *const *in, void *stream,
                                kiln_report *report)
{
    if (n == 0)
        return KILN_OK;
    if (n > kernel->most && kernel->plan != NULL)
        return refuse_launch(report, KILN_EINVAL,
                             "the kernel has arguments of its own: launch it with kiln_launch_args");
    if (n > kernel->most)
        return refuse_launch(report, KILN_EINVAL, "n is larger than any memory: expected a count of elements");
    if (out == NULL || in == NULL)
        return refuse_launch(report, KILN_EINVAL, "out and in must not be NULL when n is above 0");
    uintptr_t bits = (uintptr_t)out;
    for (uint32_t i = 0; i < kernel->inputs; i++) {
        if (in[i] == NULL || (overlaps_partly(out, in[i], n * kernel->element_size) && !kernel->own_output))
            return refuse_input(kernel, i, in[i], report);
        bits |= (uintptr_t)in[i];
    }
    if (kernel->own_output) {
        kiln_status status = check_output(kernel, n, out, in, report);
        if (status != KILN_OK)
            return status;
    }
    uint32_t entry = 0;
    while (entry < kernel->entry_count && (bits & kernel->odd[entry]))
        entry++;
    if ((bits & (kernel->element_size - 1)) || (entry == kernel->entry_count && entry > 0))
        return refuse_alignment(kernel, bits, report);
    return kernel->vtable->launch(kernel->module, entry, n, out, in, stream, report);
}

static uint64_t hash_of(const void *key, size_t length)
{
    uint8_t sum[KILN__CHECKSUM_SIZE];
    uint64_t hash;
    kiln__checksum(sum, key, length);
    memcpy(&hash, sum, sizeof(hash));
    return hash;
}

void kiln__kernel_table_init(kiln__kernel_table *table)
{
    for (int i = 0; i < KILN__KERNEL_SHARDS; i++) {
        pthread_mutex_init(&table->shards[i].lock, NULL);
        atomic_init(&table->shards[i].first, NULL);
    }
}

void kiln__kernel_table_fini(kiln__kernel_table *table)
{
    for (int i = 0; i < KILN__KERNEL_SHARDS; i++) {
        kiln__kernel_node *node = table->shards[i].first;
        while (node != NULL) {
            kiln__kernel_node *next = node->next;
            kiln__kernel_release(node->kernel);
            kiln__free(node);
            node = next;
        }
        pthread_mutex_destroy(&table->shards[i].lock);
    }
}

static kiln__kernel_node *find_locked(kiln__kernel_node *node, uint64_t hash, const void *key, size_t length)
{
    while (node != NULL && (node->hash != hash || node->length != length || memcmp(node->key, key, length) != 0))
        node = node->next;
    return node;
}

kiln_kernel *kiln__kernel_table_find(kiln__kernel_table *table, const void *key, size_t length, uint64_t generation)
{
    uint64_t hash = hash_of(key, length);
    unsigned shard = hash % KILN__KERNEL_SHARDS;
    kiln_kernel *kernel = NULL;
    pthread_mutex_lock(&table->shards[shard].lock);
    const kiln__kernel_node *found = find_locked(table->shards[shard].first, hash, key, length);
    if (found != NULL && found->generation == generation)
        kernel = kiln__kernel_retain(found->kernel);
    pthread_mutex_unlock(&table->shards[shard].lock);
    return kernel;
}

/* Gives the node's kernel of that generation to the caller, or the caller's to the node. *spare is what nobody needs. */
static kiln_kernel *settle_locked(kiln__kernel_node *node, uint64_t generation, kiln_kernel *kernel,
                                  kiln_kernel **spare)
{
    if (node->generation == generation) {
        *spare = kernel;
        return kiln__kernel_retain(node->kernel);
    }
    if (node->generation < generation) {
        *spare = node->kernel;
        node->kernel = kiln__kernel_retain(kernel);
        node->generation = generation;
    }
    return kernel;
}

kiln_kernel *kiln__kernel_table_add(kiln__kernel_table *table, const void *key, size_t length, uint64_t generation,
                                    kiln_kernel *kernel)
{
    uint64_t hash = hash_of(key, length);
    unsigned shard = hash % KILN__KERNEL_SHARDS;
    kiln__kernel_node *node = kiln__alloc(sizeof(*node) + length);
    kiln_kernel *spare = NULL;
    pthread_mutex_lock(&table->shards[shard].lock);
    kiln__kernel_node *first = atomic_load_explicit(&table->shards[shard].first, memory_order_relaxed);
    kiln__kernel_node *found = find_locked(first, hash, key, length);
    if (found != NULL) {
        kernel = settle_locked(found, generation, kernel, &spare);
    } else if (node != NULL) {
        *node = (kiln__kernel_node){ first, hash, generation, kiln__kernel_retain(kernel), length };
        memcpy(node->key, key, length);
        atomic_store_explicit(&table->shards[shard].first, node, memory_order_release);
        node = NULL;
    }
    pthread_mutex_unlock(&table->shards[shard].lock);
    kiln__free(node);
    kiln__kernel_release(spare);
    return kernel;
}

void kiln__kernel_table_visit(kiln__kernel_table *table,
                              void (*fn)(void *data, const void *key, size_t length, kiln_kernel *kernel), void *data)
{
    for (int i = 0; i < KILN__KERNEL_SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].lock);
        for (kiln__kernel_node *node = table->shards[i].first; node != NULL; node = node->next)
            fn(data, node->key, node->length, node->kernel);
        pthread_mutex_unlock(&table->shards[i].lock);
    }
}

void kiln__kernel_table_after_fork(kiln__kernel_table *table)
{
    for (int i = 0; i < KILN__KERNEL_SHARDS; i++)
        pthread_mutex_init(&table->shards[i].lock, NULL);
}
