/* From tensors to a launch: the loop of the tensors and the text name an entry of a table, whose kernel is launched. An
 * entry is made once, by a spec with the types and the layout of the tensors. */
#include "service/apply.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "base/number.h"
#include "lang/derive.h"
#include "os/cancel.h"
#include "service/get.h"
#include "service/launch.h"
#include "spec/loop.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* All that chooses a kernel. Compared as bytes, so there is no padding. */
typedef struct apply_key {
    const kiln_device *device;
    uint64_t types, layouts;               /* four bits for each operand */
    const kiln__applied_text *text;        /* NULL: the table has no place for it, nor for its kernels */
    uint8_t outputs, operands, kind, dims; /* kind: that of the loop, and whether it is ordered */
    uint16_t octave;                       /* of the number of elements, on which geometry may depend */
    uint16_t vector;                       /* see vector_of */
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

/* Adds a text with a reference to its spec, on the same terms as a kernel. Returns the entry of the text, or NULL. */
static const kiln__applied_text *add_text(kiln__apply_table *table, const char *text, size_t length, uint64_t hash,
                                          kiln_spec *spec)
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

/* The device of all tensors. Opens the default one where they name none and it is not open yet. */
static kiln_status find_device(kiln_device **out, kiln_service *service, const kiln_tensor *outs, size_t out_count,
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

/* A text leaves open the fields that tensors give. */
static kiln_status check_open(const kiln_spec *spec, kiln_report *report)
{
    static const char *const given[] = { "dtype", "out", "layout", "n" };
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        int id = kiln__fields_find(spec->fields.template, kiln__word_of(given[i]));
        if (spec->values[id][0] != '\0')
            return FAIL(report, KILN_EINVAL, "the tensors give %s: leave %s=%.100s out of the text", given[i], given[i],
                        spec->values[id]);
    }
    return KILN_OK;
}

static kiln_status fail_without_op(kiln_report *report)
{
    return FAIL(report, KILN_EINVAL, "the text has no op: write one, such as op=x+y");
}

static kiln_status check_op(const kiln_spec *spec, const kiln__loop *loop, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (!spec->fields.op_set)
        return fail_without_op(report);
    if (op->indexed && !loop->ordered)
        return FAIL(report, KILN_EINVAL,
                    "the op takes the index, and the outputs are permuted: elements are counted as "
                    "the shape has them");
    if (op->outputs == loop->outputs && op->inputs == loop->operands - loop->outputs)
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "the op writes %u and reads %u tensors, and %u and %u are given", op->outputs,
                op->inputs, loop->outputs, loop->operands - loop->outputs);
}

/* The size that geometry depends on. Rows without elements are as those of one. */
static kiln__size size_of(const kiln__loop *loop)
{
    const uint64_t cols = loop->extent[0] > 0 ? (uint64_t)loop->extent[0] : 1;
    return kiln__size_round(loop->count, loop->kind == KILN__LOOP_REDUCED ? cols : 0);
}

enum { WORD = 16 /* bytes of an access */ };

/* The most elements that an access may have, where rows on a GPU do not begin at a multiple of WORD bytes; else 0. Such
 * rows are kept on chip only by a kernel whose accesses are as narrow. */
static uint32_t vector_of(const kiln_device *device, const kiln__loop *loop, const kiln_tensor *outs,
                          const kiln_tensor *ins)
{
    uintptr_t bits = 0;
    uint32_t widest = 1;
    if (device->target.sm == 0 || loop->kind != KILN__LOOP_REDUCED || loop->dims > 2)
        return 0;
    for (uint32_t k = 0; k < loop->operands; k++) {
        const kiln_dtype dtype = k < loop->outputs ? outs[k].dtype : ins[k - loop->outputs].dtype;
        const uint32_t bytes = kiln__dtype_bytes((kiln__dtype)dtype);
        widest = bytes > widest ? bytes : widest;
        if (loop->layouts[k] > KILN__LAYOUT_ROW)
            continue;
        bits |= (uintptr_t)loop->data[k];
        for (uint32_t d = loop->dims; d < loop->dims + loop->batches; d++)
            bits |= (uintptr_t)loop->stride[k][d] * bytes;
    }
    const uint32_t aligned = (uint32_t)(bits & (0 - bits)); /* 0: by any number of bytes */
    if (bits % WORD == 0)
        return 0;
    return aligned > widest ? aligned / widest : 1;
}

/* The word of an operand in a kernel of any strides. A template that the text names may not know the word cross. */
static kiln__layout strided_layout(const kiln__loop *loop, uint32_t k, bool is_named)
{
    return is_named ? kiln__loop_layout(loop, k) : loop->layouts[k];
}

static bool is_in_place(const kiln__template *template)
{
    const kiln__arguments *arguments = &template->arguments;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if ((arguments->args[i].role == KILN__ARG_OUT || arguments->args[i].role == KILN__ARG_INOUT) &&
            !arguments->args[i].in_place)
            return false;
    return true;
}

/* A template that the text names computes on such tensors, and on all that are simpler. */
static kiln_status check_template(const kiln__template *template, const kiln__loop *loop, kiln_report *report)
{
    bool strided = kiln__template_strided(template);
    bool rows = kiln__template_broadcasts(template) && kiln__arguments_rows(&template->arguments);
    bool flat = kiln__arguments_flat(&template->arguments);
    if (loop->kind == KILN__LOOP_REDUCED && (template->arguments.size_count > 2) != (loop->dims > 2))
        return FAIL(report, KILN_EINVAL, "template %s takes an axis that is %sfollowed by other dimensions",
                    template->name, loop->dims > 2 ? "not " : "");
    if (loop->kind == KILN__LOOP_REDUCED) /* the template takes ops that reduce, since the spec has one */
        return KILN_OK;
    if (!is_in_place(template) || !(strided || rows || flat))
        return FAIL(report, KILN_EINVAL,
                    "template %s is for kiln_launch: its outputs are not inplace, or its arrays have other sizes than "
                    "n, or than rows and columns",
                    template->name);
    if (loop->kind == KILN__LOOP_FLAT || strided || (rows && loop->kind == KILN__LOOP_ROWS))
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "template %s does not take the layout of these tensors: leave template out",
                template->name);
}

/* Where the tensors choose the template, the text may name only parameters that it has. */
static kiln_status check_params(const kiln_spec *spec, const kiln__template *template, kiln_report *report)
{
    const kiln__template *named = spec->fields.template;
    for (uint32_t i = 0; i < named->param_count; i++)
        if (spec->fields.param_set[i] &&
            kiln__template_param(template, named->params[i].name, strlen(named->params[i].name)) < 0)
            return FAIL(report, KILN_EINVAL,
                        "these tensors take template %s, which has no parameter %s: leave %s out, or name a template",
                        template->name, named->params[i].name, named->params[i].name);
    return KILN_OK;
}

static void append_types(kiln__text *out, const char *field, const kiln_tensor *tensors, size_t count)
{
    kiln__text_printf(out, " %s=", field);
    for (size_t k = 0; k < count; k++)
        kiln__text_printf(out, "%s%s", k == 0 ? "(" : ",", kiln__dtype_name((kiln__dtype)tensors[k].dtype));
    kiln__text_append(out, ")");
}

static void append_layout(kiln__text *out, const kiln__template *template, bool is_named, const kiln__loop *loop)
{
    bool strided = kiln__template_strided(template);
    if (!strided && (loop->kind == KILN__LOOP_FLAT || !kiln__template_broadcasts(template)))
        return;
    kiln__text_append(out, " layout=");
    if (strided)
        kiln__text_printf(out, "%ud", loop->dims > 0 ? loop->dims : 1);
    for (uint32_t k = strided ? 0 : loop->outputs, first = k; k < loop->operands; k++)
        kiln__text_printf(out, "%s%s", k == first ? "(" : ",",
                          kiln__layout_name(strided ? strided_layout(loop, k, is_named) : loop->layouts[k]));
    kiln__text_append(out, ")");
}

static void append_hint(kiln__text *out, const kiln__loop *loop)
{
    const kiln__size size = size_of(loop);
    if (loop->kind == KILN__LOOP_REDUCED)
        kiln__text_append(out, " axis= keep=");
    if (size.rows > 0)
        kiln__text_printf(out, " n=%" PRIu64 "x%" PRIu64, size.rows, size.cols);
    else if (size.n > 0)
        kiln__text_printf(out, " n=%" PRIu64, size.n);
}

/* Unless the text names the parameter itself. */
static void append_vector(kiln__text *out, const kiln_spec *spec, const kiln__template *template, uint32_t vector)
{
    static const char name[] = "vector";
    const int own = kiln__template_param(spec->fields.template, name, strlen(name));
    if (vector > 0 && kiln__template_param(template, name, strlen(name)) >= 0 &&
        !(own >= 0 && spec->fields.param_set[own]))
        kiln__text_printf(out, " %s=%u", name, vector);
}

/* Sets the fields of a line, which it frees. */
static kiln_status set_fields(kiln_spec **spec, kiln__text *line, kiln_report *report)
{
    kiln_spec *set = NULL;
    kiln_status status = line->failed ? kiln__fail_memory(report, KILN__STAGE_LAUNCH)
                                      : kiln__spec_with(&set, *spec, kiln__text_string(line), report);
    kiln__text_fini(line);
    if (status == KILN_OK) {
        kiln__spec_release(*spec);
        *spec = set;
    }
    return status;
}

/* The fields that tensors give, but for the types of the outputs. The template of rows follows from their length. */
static kiln_status add_fields(kiln_spec **spec, const kiln__loop *loop, uint32_t vector, const kiln_tensor *ins,
                              kiln_report *report)
{
    static const char *const names[] = { "elementwise", "broadcast", "strided", "crossed", KILN__TEMPLATE_ROWS };
    const bool named = (*spec)->fields.template_set, reduces = loop->kind == KILN__LOOP_REDUCED;
    const bool beside = reduces && loop->dims > 2;
    const char *name = beside ? KILN__TEMPLATE_COLUMNS : names[loop->kind];
    const kiln__template *template = (*spec)->fields.template;
    kiln__text line = { 0 };
    kiln_status status = KILN_OK;
    if (named)
        status = check_template(template, loop, report);
    else
        status = kiln__catalog_find((*spec)->fields.catalog, kiln__word_of(name), &template, report);
    if (status == KILN_OK)
        status = check_params(*spec, template, report);
    if (status != KILN_OK)
        return status;
    if (named || beside || !reduces)
        kiln__text_printf(&line, "template=%s", template->name);
    append_types(&line, "dtype", ins, loop->operands - loop->outputs);
    append_layout(&line, template, named, loop);
    append_hint(&line, loop);
    append_vector(&line, *spec, template, vector);
    return set_fields(spec, &line, report);
}

/* As torch.can_cast: real numbers do not become whole ones, nor numbers truth values. */
static bool can_cast(kiln__dtype from, kiln__dtype to)
{
    if (kiln__dtype_is_real(from))
        return kiln__dtype_is_real(to);
    return to != KILN__DTYPE_BOOL || from == KILN__DTYPE_BOOL;
}

/* Sets the types of the outputs, where they are not those that the op gives. */
static kiln_status add_results(kiln_spec **spec, const kiln_tensor *outs, uint32_t count, kiln_report *report)
{
    kiln__text line = { 0 };
    bool equal = true;
    for (uint32_t k = 0; k < count; k++) {
        kiln__dtype given = kiln__spec_result(&(*spec)->fields, k), wanted = (kiln__dtype)outs[k].dtype;
        equal = equal && given == wanted;
        if (!can_cast(given, wanted))
            return FAIL(report, KILN_EINVAL, "the op gives %s, which does not become %s as PyTorch casts: output %u",
                        kiln__dtype_name(given), kiln__dtype_name(wanted), k);
    }
    if (equal)
        return KILN_OK;
    append_types(&line, "out", outs, count);
    return set_fields(spec, &line, report);
}

/* The spec for tensors, from that of the text. */
static kiln_status make_spec(kiln_spec **out, kiln_spec *asked, const kiln__loop *loop, uint32_t vector,
                             const kiln_tensor *outs, const kiln_tensor *ins, kiln_report *report)
{
    *out = kiln__spec_retain(asked);
    kiln_status status = check_op(*out, loop, report);
    if (status == KILN_OK)
        status = check_open(*out, report);
    if (status == KILN_OK)
        status = add_fields(out, loop, vector, ins, report);
    if (status == KILN_OK)
        status = add_results(out, outs, loop->outputs, report);
    if (status != KILN_OK) {
        kiln__spec_release(*out);
        *out = NULL;
    }
    return status;
}

static kiln_status make_loop(kiln__loop *out, const kiln_spec *spec, const kiln_tensor *outs, size_t out_count,
                             const kiln_tensor *ins, size_t in_count, bool placed, kiln_report *report)
{
    if (spec->fields.op->reductions > 0)
        return kiln__loop_make_rows(out, outs, out_count, ins, in_count, &spec->fields.axis, placed, report);
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
    status = make_loop(&loop, asked, outs, out_count, ins, in_count, false, report);
    if (status == KILN_OK)
        status = find_device(device, service, outs, out_count, ins, in_count, report);
    if (status == KILN_OK)
        status = make_spec(out, asked, &loop, vector_of(*device, &loop, outs, ins), outs, ins, report);
    kiln__spec_release(asked);
    return status;
}

/* ---- Outputs */

static kiln_status check_inputs(const kiln_spec *spec, size_t in_count, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (!spec->fields.op_set)
        return fail_without_op(report);
    if (op->inputs == in_count)
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "the op reads %u tensor%s, and %zu are given", op->inputs,
                op->inputs == 1 ? "" : "s", in_count);
}

/* Sets the types of inputs, and their layouts where the op reduces. */
static kiln_status type_inputs(kiln_spec **spec, const kiln__inputs *inputs, const kiln_tensor *ins, size_t in_count,
                               kiln_report *report)
{
    kiln__text line = { 0 };
    if (in_count == 0)
        return KILN_OK;
    append_types(&line, "dtype", ins, in_count);
    for (size_t k = 0; k < in_count && (*spec)->fields.op->reductions > 0; k++)
        kiln__text_printf(&line, "%s%s%s", k == 0 ? " layout=(" : ",", kiln__layout_name(inputs->layouts[k]),
                          k + 1 == in_count ? ")" : "");
    return set_fields(spec, &line, report);
}

/* A result of an op that reduces may lack the axis. */
static void shape_output(kiln_output *out, const kiln__inputs *inputs, bool reduced, bool keep)
{
    out->ndim = 0;
    for (uint32_t d = 0; d < inputs->ndim; d++) {
        const bool along = reduced && d >= inputs->axis[0] && d <= inputs->axis[1];
        if (!along || keep)
            out->shape[out->ndim++] = along ? 1 : inputs->shape[d];
    }
}

/* Reads a text and the types and layouts of its inputs. */
static kiln_status read_inputs(kiln_spec **spec, kiln__inputs *inputs, kiln_service *service, const char *text,
                               const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    kiln_status status = kiln__spec_parse(spec, &service->catalog, text, report);
    if (status != KILN_OK)
        return status;
    status = check_inputs(*spec, in_count, report);
    if (status == KILN_OK)
        status = check_open(*spec, report);
    if (status == KILN_OK)
        status = kiln__loop_inputs(inputs, ins, in_count,
                                   (*spec)->fields.op->reductions > 0 ? &(*spec)->fields.axis : NULL, report);
    if (status == KILN_OK)
        status = type_inputs(spec, inputs, ins, in_count, report);
    if (status == KILN_OK)
        status = kiln__spec_check_numbers(&(*spec)->fields, report);
    if (status != KILN_OK)
        kiln__spec_release(*spec);
    return status;
}

/* Whether an output lacks the axis, or has the extent 1 there. */
static bool is_reduced(const kiln_spec *spec, uint32_t k)
{
    return spec->fields.op->reductions > 0 && kiln__spec_out_layout(&spec->fields, k) == KILN__LAYOUT_COLUMN;
}

kiln_status kiln__apply_outputs(kiln_output *outs, size_t room, size_t *count, kiln_service *service, const char *text,
                                const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    kiln__inputs inputs;
    kiln_spec *spec;
    *count = 0;
    kiln_status status = read_inputs(&spec, &inputs, service, text, ins, in_count, report);
    if (status != KILN_OK)
        return status;
    *count = spec->fields.op->outputs;
    if (room < *count)
        status = FAIL(report, KILN_EINVAL, "the op has %zu outputs, and there is room for %zu", *count, room);
    for (uint32_t k = 0; k < *count && status == KILN_OK; k++) {
        outs[k].dtype = (kiln_dtype)kiln__spec_result(&spec->fields, k);
        shape_output(&outs[k], &inputs, is_reduced(spec, k), spec->fields.keep);
    }
    kiln__spec_release(spec);
    return status;
}

/* ---- Gradients */

static kiln_status check_wanted(const kiln_spec *spec, uint64_t wanted, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (wanted == 0 || wanted >> op->inputs != 0)
        return FAIL(report, KILN_EINVAL, "the gradients of inputs %#" PRIx64 " are wanted, and the op has %u", wanted,
                    op->inputs);
    if (op->outputs + op->inputs > KILN__INPUTS_MAX)
        return FAIL(report, KILN_EINVAL, "the gradient of an op of %u inputs and %u outputs takes more than %d arrays",
                    op->inputs, op->outputs, KILN__INPUTS_MAX);
    return KILN_OK;
}

/* "op=NAME(d1,i1,?s1)" */
static void append_call(kiln__text *out, const kiln__real *op, const char *name)
{
    kiln__text_printf(out, "op=%s(", name);
    for (uint32_t k = 0; k < op->outputs; k++)
        kiln__text_printf(out, "%sd%u", k > 0 ? "," : "", k + 1);
    for (uint32_t k = 0; k < op->inputs; k++)
        kiln__text_printf(out, ",i%u", k + 1);
    for (uint32_t k = 0; k < op->scalars; k++)
        kiln__text_printf(out, ",?s%u", k + 1);
    kiln__text_append(out, ")");
}

/* " axis=-1 keep=1 math=fast": what the gradient takes over from the op. It may reduce nothing. */
static kiln_status append_call_fields(kiln__text *out, kiln_service *service, const kiln_spec *spec,
                                      kiln_report *report)
{
    const int math = kiln__fields_find(spec->fields.template, kiln__word_of("math"));
    kiln_spec *call;
    kiln_status status = kiln__spec_parse(&call, &service->catalog, kiln__text_string(out), report);
    if (status != KILN_OK)
        return status;
    if (call->fields.op->reductions > 0) {
        kiln__text_append(out, " axis=");
        kiln__axis_format(&spec->fields.axis, out);
        kiln__text_append(out, " keep=1");
    }
    if (spec->fields.math != KILN__MATH_UNSET)
        kiln__text_printf(out, " math=%s", spec->values[math]);
    kiln__spec_release(call);
    return out->failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

static kiln_status define_gradient(kiln__text *call, kiln_service *service, const kiln_spec *spec,
                                   const kiln__derivation *d, kiln_report *report)
{
    char name[32];
    kiln__text body = { 0 }, definition = { 0 };
    kiln_status status = kiln__derive(d, &body, report);
    if (status == KILN_OK) {
        snprintf(name, sizeof(name), "gradient_%016" PRIx64, kiln__hash(body.data, body.length));
        kiln__text_printf(&definition, "%s%s", name, kiln__text_string(&body));
        append_call(call, d->real, name);
        status = definition.failed || call->failed
                     ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                     : kiln__service_define_op(service, kiln__text_string(&definition), report);
    }
    if (status == KILN_OK)
        status = append_call_fields(call, service, spec, report);
    kiln__text_fini(&body);
    kiln__text_fini(&definition);
    return status;
}

kiln_status kiln__apply_gradient(char **out, kiln_service *service, const char *text, const kiln_tensor *ins,
                                 size_t in_count, uint64_t wanted, kiln_report *report)
{
    kiln__inputs inputs;
    kiln__text call = { 0 };
    kiln_spec *spec;
    *out = NULL;
    kiln_status status = read_inputs(&spec, &inputs, service, text, ins, in_count, report);
    if (status != KILN_OK)
        return status;
    kiln__derivation d = { .real = spec->fields.op, .ops = &service->catalog.ops, .wanted = wanted };
    for (size_t k = 0; k < in_count; k++) {
        d.inputs[k] = inputs.layouts[k] <= KILN__LAYOUT_ROW;
        d.wide = d.wide || ins[k].dtype == KILN_F64;
    }
    for (uint32_t k = 0; k < d.real->outputs; k++)
        d.outputs[k] = !is_reduced(spec, k);
    status = check_wanted(spec, wanted, report);
    if (status == KILN_OK)
        status = define_gradient(&call, service, spec, &d, report);
    if (status == KILN_OK)
        *out = kiln__text_take(&call);
    kiln__text_fini(&call);
    kiln__spec_release(spec);
    return status;
}

/* ---- Launching */

static void fill_key(apply_key *out, const kiln_device *device, const kiln__applied_text *text, const kiln__loop *loop,
                     const kiln_tensor *outs, const kiln_tensor *ins)
{
    const kiln__size size = size_of(loop);
    *out = (apply_key){ .device = device,
                        .text = text,
                        .outputs = (uint8_t)loop->outputs,
                        .operands = (uint8_t)loop->operands,
                        .kind = (uint8_t)(loop->kind << 1 | loop->ordered),
                        .dims = (uint8_t)(loop->kind >= KILN__LOOP_STRIDED ? loop->dims : 0),
                        .octave = (uint16_t)(size.n > 0 ? kiln__number_octave(size.n) : UINT16_MAX),
                        .vector = (uint16_t)vector_of(device, loop, outs, ins),
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
    kiln_status status = make_spec(&spec, asked, loop, key->vector, outs, ins, report);
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

/* The kernel is loaded. */
static inline kiln_status launch(const kiln_kernel *kernel, const kiln__loop *loop, const double *scalars,
                                 size_t scalar_count, void *stream, kiln_report *report)
{
    if (scalar_count != kernel->plan->scalars)
        return FAIL(report, KILN_EINVAL, "the op has %u scalar%s, and %zu are given", kernel->plan->scalars,
                    kernel->plan->scalars == 1 ? "" : "s", scalar_count);
    return loop->count > 0 ? kiln__kernel_launch_loop(kernel, loop, scalars, stream, report) : KILN_OK;
}

/* Reads a text and adds it to the table. Apart from kiln__apply, as get_kernel. The caller releases the spec. */
static __attribute__((noinline)) kiln_status read_text(kiln_spec **out, const kiln__applied_text **known,
                                                       kiln_service *service, const char *text, size_t length,
                                                       uint64_t hash, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_status status = kiln__spec_parse(out, &service->catalog, text, report);
    if (status == KILN_OK)
        *known = add_text(&service->applied, text, length, hash, *out);
    return status;
}

kiln_status kiln__apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                        const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                        void *stream, kiln_report *report)
{
    kiln__loop loop;
    apply_key key;
    kiln_device *device;
    kiln_kernel *kernel = NULL;
    kiln_spec *read = NULL;
    const size_t length = strlen(text);
    const uint64_t text_hash = kiln__hash(text, length);
    const kiln__applied_text *known = find_text(&service->applied, text, length, text_hash);
    kiln_status status = KILN_OK;
    if (known == NULL)
        status = read_text(&read, &known, service, text, length, text_hash, report);
    if (status != KILN_OK)
        return status;
    kiln_spec *asked = known != NULL ? known->spec : read;
    status = make_loop(&loop, asked, outs, out_count, ins, in_count, true, report);
    if (status == KILN_OK)
        status = find_device(&device, service, outs, out_count, ins, in_count, report);
    if (status == KILN_OK) {
        fill_key(&key, device, known, &loop, outs, ins);
        const uint64_t hash = hash_of(&key);
        const kiln__applied *entry = find_entry(&service->applied, &key, hash);
        if (entry == NULL)
            status = get_kernel(&kernel, service, asked, &key, hash, &loop, outs, ins, stream, report);
        if (status == KILN_OK)
            status = launch(entry != NULL ? entry->kernel : kernel, &loop, scalars, scalar_count, stream, report);
    }
    kiln__kernel_release(kernel);
    kiln__spec_release(read);
    return status;
}
