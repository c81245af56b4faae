/* From tensors to a launch: the loop of the tensors and the text name an entry of a table, whose kernel is launched. An
 * entry is made once, by a spec with the types and the layout of the tensors. */
#include "service/apply.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "base/number.h"
#include "os/cancel.h"
#include "service/get.h"
#include "service/launch.h"
#include "service/parts.h"
#include "service/tensors.h"
#include "spec/loop.h"
#include <inttypes.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* All that chooses a kernel. Compared as bytes, so there is no padding. */
typedef struct apply_key {
    const kiln_device *device;
    uint64_t types, layouts;               /* four bits for each operand */
    const kiln__applied_text *text;        /* NULL: the table has no place for it, nor for its kernels */
    uint8_t outputs, operands, kind, dims; /* kind: that of the loop, and whether it is ordered */
    uint16_t octave;                       /* of the number of elements, on which geometry may depend */
    uint16_t vector;                       /* see kiln__tensors_vector */
    uint64_t cols;                         /* likewise the elements of a row of an op that reduces, else 0 */
} apply_key;

struct kiln__applied {
    kiln__applied *next; /* in the bucket; constant, as all of an entry */
    uint64_t hash;
    apply_key key;
    kiln_kernel *kernel;
};

/* The op decides how tensors become a loop, so that a text is read before its kernel is known. */
struct kiln__applied_text {
    kiln__applied_text *next; /* in the bucket; constant, as all of an entry */
    uint64_t hash;
    size_t length;
    kiln_spec *spec;
    kiln__parts parts; /* of a text with reduce= */
    char text[];
};

/* ---- The table */

void kiln__apply_table_init(kiln__apply_table *table)
{
    table->most = UINT32_MAX;
    pthread_mutex_init(&table->lock, NULL);
}

void kiln__apply_table_fini(kiln__apply_table *table)
{
    for (int i = 0; i < KILN__APPLIED_BUCKETS; i++)
        for (kiln__applied *entry = atomic_load(&table->buckets[i]), *next; entry != NULL; entry = next) {
            next = entry->next;
            kiln__kernel_release(entry->kernel);
            kiln__free(entry);
        }
    for (int i = 0; i < KILN__APPLIED_BUCKETS; i++)
        for (kiln__applied_text *entry = atomic_load(&table->texts[i]), *next; entry != NULL; entry = next) {
            next = entry->next;
            kiln__spec_release(entry->spec);
            kiln__parts_fini(&entry->parts);
            kiln__free(entry);
        }
    pthread_mutex_destroy(&table->lock);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const apply_key *key)
{
    uint64_t hash = mix((uintptr_t)key->text ^ key->cols, (uintptr_t)key->device);
    uint64_t shape = (uint64_t)key->vector << 48 | (uint64_t)key->octave << 32 | (uint64_t)key->outputs << 24 |
                     (uint64_t)key->operands << 16 | (uint64_t)key->kind << 8 | key->dims;
    return mix(mix(mix(hash, key->types), key->layouts), shape);
}

static _Atomic(kiln__applied *) *bucket_of(kiln__apply_table *table, uint64_t hash)
{
    return &table->buckets[hash % KILN__APPLIED_BUCKETS];
}

static kiln__applied *find_entry(kiln__apply_table *table, const apply_key *key, uint64_t hash)
{
    kiln__applied *entry = atomic_load_explicit(bucket_of(table, hash), memory_order_acquire);
    while (entry != NULL && (entry->hash != hash || memcmp(&entry->key, key, sizeof(*key)) != 0))
        entry = entry->next;
    return entry;
}

/* Adds a kernel with a reference to it, unless the table is full or memory is short: the next call gets it again. */
static void add_entry(kiln__apply_table *table, const apply_key *key, uint64_t hash, kiln_kernel *kernel)
{
    kiln__applied *entry = key->text != NULL ? kiln__alloc(sizeof(*entry)) : NULL;
    if (entry == NULL)
        return;
    *entry = (kiln__applied){ .hash = hash, .key = *key };
    pthread_mutex_lock(&table->lock);
    if (table->count < table->most && find_entry(table, key, hash) == NULL) {
        _Atomic(kiln__applied *) *bucket = bucket_of(table, hash);
        entry->kernel = kiln__kernel_retain(kernel);
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(bucket, entry, memory_order_release);
        table->count++;
        entry = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    kiln__free(entry);
}

static _Atomic(kiln__applied_text *) *text_bucket(kiln__apply_table *table, uint64_t hash)
{
    return &table->texts[hash % KILN__APPLIED_BUCKETS];
}

static const kiln__applied_text *find_text(kiln__apply_table *table, const char *text, size_t length, uint64_t hash)
{
    const kiln__applied_text *entry = atomic_load_explicit(text_bucket(table, hash), memory_order_acquire);
    while (entry != NULL && (entry->hash != hash || entry->length != length || memcmp(entry->text, text, length) != 0))
        entry = entry->next;
    return entry;
}

/* Adds a text with a reference to its spec, on the same terms as a kernel, and takes over its parts. Returns the entry
 * of the text, or NULL. */
static const kiln__applied_text *add_text(kiln__apply_table *table, const char *text, size_t length, uint64_t hash,
                                          kiln_spec *spec, kiln__parts *parts)
{
    kiln__applied_text *entry = kiln__alloc(sizeof(*entry) + length);
    if (entry == NULL)
        return NULL;
    *entry = (kiln__applied_text){ .hash = hash, .length = length };
    memcpy(entry->text, text, length);
    pthread_mutex_lock(&table->lock);
    const kiln__applied_text *known = find_text(table, text, length, hash);
    if (known == NULL && table->text_count < table->most) {
        _Atomic(kiln__applied_text *) *bucket = text_bucket(table, hash);
        entry->spec = kiln__spec_retain(spec);
        entry->parts = *parts;
        *parts = (kiln__parts){ .weighted = false };
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(bucket, entry, memory_order_release);
        table->text_count++;
        known = entry;
        entry = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    kiln__free(entry);
    return known;
}

/* ---- Devices */

static const kiln_device *device_at(const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t k)
{
    return k < out_count ? outs[k].device : ins[k - out_count].device;
}

static kiln_status fail_device(const kiln_device *one, const kiln_device *other, kiln_report *report)
{
    return FAIL(report, KILN_EINVAL, "tensors lie on %s and on %s: copy them to one device", one->name, other->name);
}

static __attribute__((noinline)) kiln_status open_default(kiln_device **out, kiln_service *service, kiln_report *report)
{
    KILN__NO_CANCEL;
    return kiln__runtime_device(service->runtime, NULL, out, report);
}

kiln_status kiln__apply_device(kiln_device **out, kiln_service *service, const kiln_tensor *outs, size_t out_count,
                               const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    const kiln_device *first = outs[0].device, *usual = NULL;
    kiln_status status = KILN_OK;
    bool equal = true;
    for (size_t k = 1; k < out_count + in_count; k++)
        equal = equal && device_at(outs, out_count, ins, k) == first;
    *out = (kiln_device *)first;
    if ((first == NULL || !equal) && !kiln__runtime_has_device(service->runtime, NULL, out))
        status = open_default(out, service, report);
    if (status != KILN_OK)
        return status;
    usual = *out;
    first = first != NULL ? first : usual;
    for (size_t k = 1; k < out_count + in_count && !equal; k++) {
        const kiln_device *device = device_at(outs, out_count, ins, k);
        if ((device != NULL ? device : usual) != first)
            return fail_device(first, device != NULL ? device : usual, report);
    }
    *out = (kiln_device *)first;
    return kiln__service_check_device(service, first, report);
}

/* ---- The spec of tensors */

static kiln_status make_loop(kiln__loop *out, const kiln_spec *spec, const kiln_tensor *outs, size_t out_count,
                             const kiln_tensor *ins, size_t in_count, bool placed, kiln_report *report)
{
    const kiln__along along = kiln__tensors_along(spec);
    if (spec->fields.op->reductions > 0)
        return kiln__loop_make_rows(out, outs, out_count, ins, in_count, &along, placed, report);
    return kiln__loop_make(out, outs, out_count, ins, in_count, placed, report);
}

kiln_status kiln__apply_spec(kiln_spec **out, kiln_device **device, kiln_service *service, const char *text,
                             const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                             kiln_report *report)
{
    kiln__loop loop;
    kiln_spec *asked;
    *out = NULL;
    kiln_status status = kiln__spec_parse(&asked, &service->catalog, text, report);
    if (status != KILN_OK)
        return status;
    if (asked->fields.reduce != KILN__TOTAL_NONE)
        status = FAIL(report, KILN_EINVAL, "reduce= is for kiln_apply: ask for each call that kiln_apply_parts gives");
    if (status == KILN_OK)
        status = make_loop(&loop, asked, outs, out_count, ins, in_count, false, report);
    if (status == KILN_OK)
        status = kiln__apply_device(device, service, outs, out_count, ins, in_count, report);
    if (status == KILN_OK)
        status =
            kiln__tensors_spec(out, asked, &loop, kiln__tensors_vector(*device, &loop, outs, ins), outs, ins, report);
    kiln__spec_release(asked);
    return status;
}

/* ---- Launching */

static void fill_key(apply_key *out, const kiln_device *device, const kiln__applied_text *text, const kiln__loop *loop,
                     const kiln_tensor *outs, const kiln_tensor *ins)
{
    const kiln__size size = kiln__tensors_size(loop);
    *out = (apply_key){ .device = device,
                        .text = text,
                        .outputs = (uint8_t)loop->outputs,
                        .operands = (uint8_t)loop->operands,
                        .kind = (uint8_t)(loop->kind << 1 | loop->ordered),
                        .dims = (uint8_t)(loop->kind >= KILN__LOOP_STRIDED ? loop->dims : 0),
                        .octave = (uint16_t)(size.n > 0 ? kiln__number_octave(size.n) : UINT16_MAX),
                        .vector = (uint16_t)kiln__tensors_vector(device, loop, outs, ins),
                        .cols = size.cols };
    for (uint32_t k = 0; k < loop->operands; k++) {
        kiln_dtype dtype = k < loop->outputs ? outs[k].dtype : ins[k - loop->outputs].dtype;
        out->types = out->types << 4 | (uint64_t)dtype;
        out->layouts = out->layouts << 4 | (uint64_t)loop->layouts[k];
    }
}

static_assert((int)KILN_BOOL < 16 && (int)KILN__LAYOUT_END <= 16 && KILN__OPERANDS_MAX <= 16,
              "a type and a layout of each operand have four bits");

/* An output has the shape of the inputs or one without the axis, as the op has it. */
static kiln_status check_reduced(const kiln__plan *plan, const kiln__loop *loop, kiln_report *report)
{
    for (uint32_t i = 0, k = 0; i < plan->arg_count && loop->extent[0] != 1; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role != KILN__ARG_OUT)
            continue;
        const bool reduced = arg->layout == KILN__LAYOUT_COLUMN;
        if (loop->layouts[k++] != arg->layout)
            return FAIL(report, KILN_EINVAL, "tensor %s: the op gives one value for each %s there", arg->name,
                        reduced ? "row, and the tensor has the axis" : "element, and the tensor lacks the axis");
    }
    return KILN_OK;
}

/* A user's template may have other arguments than the op, and other types. */
static kiln_status check_kernel(const kiln_kernel *kernel, const kiln__loop *loop, const kiln_tensor *outs,
                                const kiln_tensor *ins, const kiln__real *op, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    if (plan->outputs != loop->outputs || plan->inputs != loop->operands - loop->outputs ||
        plan->scalars != op->scalars)
        return FAIL(report, KILN_EINVAL,
                    "the template has other arguments than the op: launch its kernel with kiln_launch");
    for (uint32_t i = 0; i < plan->arg_count; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role > KILN__ARG_INOUT)
            continue;
        kiln__dtype given = (kiln__dtype)(arg->role == KILN__ARG_IN ? ins++ : outs++)->dtype;
        if (given != arg->type)
            return FAIL(report, KILN_EINVAL, "argument %s of the template is %s, and the tensor is %s", arg->name,
                        kiln__dtype_name(arg->type), kiln__dtype_name(given));
    }
    return loop->kind == KILN__LOOP_REDUCED ? check_reduced(plan, loop, report) : KILN_OK;
}

/* Gets the kernel and adds it to the table. Apart from kiln__apply, so that a hit sets up no stack for this. The caller
 * releases the kernel. */
static __attribute__((noinline)) kiln_status get_kernel(kiln_kernel **out, kiln_service *service, kiln_spec *asked,
                                                        const apply_key *key, uint64_t hash, const kiln__loop *loop,
                                                        const kiln_tensor *outs, const kiln_tensor *ins, void *stream,
                                                        kiln_report *report)
{
    kiln_spec *spec;
    kiln_program *program = NULL;
    KILN__NO_CANCEL;
    kiln_status status = kiln__tensors_spec(&spec, asked, loop, key->vector, outs, ins, report);
    if (status != KILN_OK)
        return status;
    const kiln_request request = { .spec = spec, .device = (kiln_device *)key->device };
    status = kiln__get(&program, service, &request, false, loop->count > 0 ? &stream : NULL, report);
    if (status == KILN_OK)
        status = check_kernel(program->kernels, loop, outs, ins, spec->fields.op, report);
    if (status == KILN_OK) {
        *out = program->kernels;
        add_entry(&service->applied, key, hash, *out);
    } else {
        kiln__program_release(program);
    }
    kiln__spec_release(spec);
    return status;
}

/* Along an axis of one element a result of a row has the place of an input's element, which other results may read. */
static __attribute__((noinline)) kiln_status check_one_column(const kiln__plan *plan, const kiln__loop *loop,
                                                              kiln_report *report)
{
    for (uint32_t i = 0, k = 0; i < plan->arg_count; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role != KILN__ARG_OUT)
            continue;
        for (uint32_t j = loop->outputs; j < loop->operands && arg->layout == KILN__LAYOUT_COLUMN; j++)
            if (loop->data[j] == loop->data[k] && loop->layouts[j] != KILN__LAYOUT_COLUMN)
                return FAIL(report, KILN_EOVERLAP,
                            "tensor %s is an input, whose axis has one element: use separate tensors", arg->name);
        k++;
    }
    return KILN_OK;
}

/* The kernel is loaded. */
static inline kiln_status launch(const kiln_kernel *kernel, const kiln__loop *loop, const double *scalars,
                                 size_t scalar_count, void *stream, kiln_report *report)
{
    if (scalar_count != kernel->plan->scalars)
        return FAIL(report, KILN_EINVAL, "the op has %u scalar%s, and %zu are given", kernel->plan->scalars,
                    kernel->plan->scalars == 1 ? "" : "s", scalar_count);
    if (loop->kind == KILN__LOOP_REDUCED && loop->outputs > 1 && loop->extent[0] == 1) {
        const kiln_status status = check_one_column(kernel->plan, loop, report);
        if (status != KILN_OK)
            return status;
    }
    return loop->count > 0 ? kiln__kernel_launch_loop(kernel, loop, scalars, stream, report) : KILN_OK;
}

/* A text that is read for a call. */
typedef struct read_text {
    kiln_spec *spec;
    kiln__parts parts;
} read_text;

static void release_text(read_text *text)
{
    kiln__spec_release(text->spec);
    kiln__parts_fini(&text->parts);
}

/* Reads a text and adds it to the table. Apart from kiln__apply, as get_kernel. The caller releases *out, whatever is
 * returned. */
static __attribute__((noinline)) kiln_status read_and_add(read_text *out, const kiln__applied_text **known,
                                                          kiln_service *service, const char *text, size_t length,
                                                          uint64_t hash, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_status status = kiln__spec_parse(&out->spec, &service->catalog, text, report);
    if (status == KILN_OK && out->spec->fields.reduce != KILN__TOTAL_NONE)
        status = kiln__parts_make(&out->parts, out->spec, report);
    if (status == KILN_OK)
        *known = add_text(&service->applied, text, length, hash, out->spec, &out->parts);
    return status;
}

static kiln_status apply_kernel(kiln_service *service, kiln_spec *asked, const kiln__applied_text *known,
                                const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                                const double *scalars, size_t scalar_count, void *stream, kiln_report *report)
{
    kiln__loop loop;
    apply_key key;
    kiln_device *device;
    kiln_kernel *kernel = NULL;
    kiln_status status = make_loop(&loop, asked, outs, out_count, ins, in_count, true, report);
    if (status == KILN_OK)
        status = kiln__apply_device(&device, service, outs, out_count, ins, in_count, report);
    if (status != KILN_OK)
        return status;
    fill_key(&key, device, known, &loop, outs, ins);
    const uint64_t hash = hash_of(&key);
    const kiln__applied *entry = find_entry(&service->applied, &key, hash);
    if (entry == NULL)
        status = get_kernel(&kernel, service, asked, &key, hash, &loop, outs, ins, stream, report);
    if (status == KILN_OK)
        status = launch(entry != NULL ? entry->kernel : kernel, &loop, scalars, scalar_count, stream, report);
    kiln__kernel_release(kernel);
    return status;
}

kiln_status kiln__apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                        const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                        void *stream, kiln_report *report)
{
    read_text read = { .spec = NULL };
    const size_t length = strlen(text);
    const uint64_t hash = kiln__hash(text, length);
    const kiln__applied_text *known = find_text(&service->applied, text, length, hash);
    kiln_status status = KILN_OK;
    if (known == NULL)
        status = read_and_add(&read, &known, service, text, length, hash, report);
    if (status == KILN_OK) {
        kiln_spec *asked = known != NULL ? known->spec : read.spec;
        status = asked->fields.reduce != KILN__TOTAL_NONE
                     ? kiln__parts_apply(service, asked, known != NULL ? &known->parts : &read.parts, outs, out_count,
                                         ins, in_count, scalars, scalar_count, stream, report)
                     : apply_kernel(service, asked, known, outs, out_count, ins, in_count, scalars, scalar_count,
                                    stream, report);
    }
    if (read.spec != NULL)
        release_text(&read);
    return status;
}
