/* Ranks the records by one number, their distance from a query, takes the first whose geometry fits, and says why. */
#include "wisdom/match.h"

#include "base/alloc.h"
#include "wisdom/describe.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_SIZE = 64 };

/* A query in the words of records. */
typedef struct subject {
    const kiln__wisdom_query *query;
    kiln__target target;
    char model[KILN__WISDOM_MODEL]; /* "" if unknown */
    kiln__dtype dtype;
    char op_class[KILN__WISDOM_CLASS];
    kiln__text op;
    unsigned size; /* NO_SIZE if unknown */
    uint64_t cols;
    const char *digest;
} subject;

/* How a record differs from the query, the weightiest difference first; each is 0 where there is none. */
typedef struct steps {
    uint32_t stale, device, source, dtype, op, size;
} steps;

enum { STALE_TOOLCHAIN = 1, STALE_TEXT = 2, OTHER_MODEL = 1, OTHER_CHIP = 2, OTHER_FAMILY = 3 };

typedef struct candidate {
    const kiln__wisdom_item *item;
    const char *never; /* NULL, or why the record says nothing about the query */
    steps differ;
    uint32_t distance;
    uint64_t multiprocessors; /* how many more or fewer */
} candidate;

kiln_wisdom_record kiln__wisdom_public_record(const kiln__wisdom_item *item)
{
    static const char *const sources[] = { [KILN__WISDOM_OWN] = "own", [KILN__WISDOM_SHARED] = "shared" };
    const kiln__wisdom_entry *record = item->record;
    return (kiln_wisdom_record){ .size = sizeof(kiln_wisdom_record),
                                 .source = sources[item->source],
                                 .model = record->device.model,
                                 .target = record->device.target,
                                 .multiprocessors = (uint32_t)record->device.multiprocessors,
                                 .l2_bytes = record->device.l2_bytes,
                                 .memory_bytes = record->device.memory_bytes,
                                 .template_name = record->template_name,
                                 .op_class = record->op_class,
                                 .op = record->op,
                                 .dtype = record->dtype,
                                 .log2_n = (uint32_t)record->log2_n,
                                 .cols = record->cols,
                                 .geometry = record->geometry,
                                 .ms = record->ms,
                                 .gbps = record->gbps,
                                 .ratio = record->ratio,
                                 .samples = record->samples,
                                 .variants = record->variants,
                                 .toolchain = record->toolchain,
                                 .by = record->maker };
}

bool kiln__wisdom_target(const kiln__wisdom_query *query, kiln__target *out)
{
    if (query->spec->target_set) {
        *out = query->spec->target;
        return true;
    }
    return kiln__target_parse(query->device->target, strlen(query->device->target), out);
}

static kiln_status make_subject(subject *out, const kiln__wisdom_query *query, const char *digest, kiln_report *report)
{
    const kiln__fields *spec = query->spec;
    const kiln__wisdom_device *device = query->device;
    kiln__target own;
    *out = (subject){ .query = query, .dtype = spec->dtype, .size = NO_SIZE, .digest = digest };
    bool has_op = kiln__wisdom_is_complete(spec);
    if (!has_op || !kiln__wisdom_target(query, &out->target))
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0,
                          has_op ? "no target: set the spec's, or name a device that has one"
                                 : "the spec has no op: add one, such as op=hardsigmoid");
    /* For another target than the device's, another device is meant. */
    if (kiln__target_parse(device->target, strlen(device->target), &own) && own.sm == out->target.sm)
        kiln__wisdom_model(device->model, out->model);
    if (out->dtype == KILN__DTYPE_UNSET)
        out->dtype = kiln__template_dtype(spec->template);
    if (spec->n_set && spec->n > 0)
        out->size = kiln__wisdom_size(spec);
    out->cols = kiln__wisdom_cols(spec);
    kiln__wisdom_class(spec, out->op_class);
    kiln__wisdom_op(spec, &out->op);
    return out->op.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

/* ---- How near a record is */

static bool differs(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

/* NULL, or why the record says nothing about the query. */
static const char *measure_steps(const subject *s, const kiln__wisdom_item *item, steps *out)
{
    const kiln__wisdom_entry *record = item->record;
    kiln__target target;
    kiln__dtype dtype = kiln__dtype_parse(record->dtype, strlen(record->dtype));
    if (!kiln__target_parse(record->device.target, strlen(record->device.target), &target))
        return "its target is unknown";
    if (target.backend != s->target.backend)
        return kiln__target_facts(&target)->words;
    if (dtype == KILN__DTYPE_UNSET || kiln__dtype_bytes(dtype) != kiln__dtype_bytes(s->dtype))
        return "elements of another size";
    if (strcmp(record->op_class, s->op_class) != 0)
        return "an op of another class";
    if (record->cols != s->cols) /* they would not fit a geometry that keeps a row, or waste it */
        return "rows of another length";
    bool same_model = strcmp(record->device.model, s->model) == 0;
    *out = (steps){ .stale = differs(record->digest, s->digest)                ? STALE_TEXT
                             : differs(record->toolchain, s->query->toolchain) ? STALE_TOOLCHAIN
                                                                               : 0,
                    .device = same_model                            ? 0
                              : target.sm == s->target.sm           ? OTHER_MODEL
                              : target.sm / 10 == s->target.sm / 10 ? OTHER_CHIP
                                                                    : OTHER_FAMILY,
                    .source = item->source,
                    .dtype = dtype != s->dtype,
                    .op = strcmp(record->op, kiln__text_string(&s->op)) != 0 };
    if (s->size != NO_SIZE)
        out->size = (uint32_t)llabs((long long)record->log2_n - (long long)s->size);
    return NULL;
}

static uint32_t distance_of(const steps *s)
{
    return ((((s->stale * 10 + s->device) * 10 + s->source) * 10 + s->dtype) * 10 + s->op) * 100 + s->size;
}

static void say(kiln__text *out, const char *format, ...) KILN__PRINTF(2, 3);
static void say(kiln__text *out, const char *format, ...)
{
    char part[KILN__WISDOM_REASON];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof(part), format, arguments);
    va_end(arguments);
    kiln__text_printf(out, "%s%s", out->length > 0 ? "; " : "", part);
}

static void say_steps(const subject *s, const candidate *row, kiln__text *out)
{
    const kiln__wisdom_entry *record = row->item->record;
    const steps *differ = &row->differ;
    if (differ->size != 0)
        say(out, "2^%" PRIu64 " elements instead of 2^%u", record->log2_n, s->size);
    if (differ->op != 0)
        say(out, "another op of the class: %s", record->op);
    if (differ->dtype != 0)
        say(out, "another dtype of the size: %s", record->dtype);
    if (differ->device == OTHER_MODEL)
        say(out, "another model of the same target: %s", record->device.model);
    else if (differ->device != 0)
        say(out, "another %s: %s, %s", differ->device == OTHER_CHIP ? "chip of the family" : "family of chips",
            record->device.target, record->device.model);
    if (differ->source == KILN__WISDOM_SHARED)
        say(out, "from the shared directory");
    if (differ->stale == STALE_TEXT)
        say(out, "made with another text of the template");
    else if (differ->stale != 0)
        say(out, "made with another toolchain: %s", record->toolchain);
    if (out->length == 0)
        say(out, s->size == NO_SIZE ? "exact, for any number of elements" : "exact");
}

/* ---- The order */

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Larger sizes first: where the size is open, tuning is for the large ones. The rest only has to be fixed. */
static int compare_candidates(const void *left, const void *right)
{
    const candidate *x = left, *y = right;
    const kiln__wisdom_entry *a = x->item->record, *b = y->item->record;
    int by = order(x->distance, y->distance);
    by = by != 0 ? by : order(x->multiprocessors, y->multiprocessors);
    by = by != 0 ? by : order(b->log2_n, a->log2_n);
    by = by != 0 ? by : order(b->variants, a->variants);
    by = by != 0 ? by : order(b->samples, a->samples);
    by = by != 0 ? by : kiln__wisdom_record_compare(a, b);
    return by != 0 ? by : strcmp(a->geometry, b->geometry);
}

/* All items of the spec's template, in order. Without `all` those that are never used are left out. */
static size_t rank(const subject *s, const kiln__wisdom_item *items, size_t count, bool all, candidate *out)
{
    size_t kept = 0;
    uint64_t wanted = s->query->device->multiprocessors;
    for (size_t i = 0; i < count; i++) {
        candidate row = { .item = &items[i] };
        uint64_t has = items[i].record->device.multiprocessors;
        if (strcmp(items[i].record->template_name, s->query->spec->template->name) != 0)
            continue;
        row.never = measure_steps(s, row.item, &row.differ);
        row.distance = row.never != NULL ? UINT32_MAX : distance_of(&row.differ);
        row.multiprocessors = has > wanted ? has - wanted : wanted - has;
        if (all || row.never == NULL)
            out[kept++] = row;
    }
    if (kept > 0)
        qsort(out, kept, sizeof(*out), compare_candidates);
    return kept;
}

/* ---- Whether a geometry can be had */

/* One parameter of a geometry into the spec. */
static kiln_status take_param(kiln__fields *spec, kiln__word name, kiln__word value, kiln_report *report)
{
    int64_t number;
    char problem[400];
    const kiln__template *template = spec->template;
    int index = kiln__template_param(template, name.text, name.length);
    if (index < 0)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "template %s has no parameter %s", template->name,
                          kiln__word_quote(name).text);
    if (!spec->param_set[index])
        return kiln__spec_set(spec, NULL, name, value, report);
    if (kiln__param_parse(&template->params[index], value.text, value.length, &number, problem, sizeof(problem)) &&
        number == spec->params[index])
        return KILN_OK;
    kiln__text asked = { 0 };
    kiln__spec_value(spec, template->params[index].name, &asked);
    kiln_status status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s=%s is asked for",
                                    template->params[index].name, kiln__text_string(&asked));
    kiln__text_fini(&asked);
    return status;
}

/* Puts the record's geometry into `out`, which is the query's spec, if the template allows that on the target. */
static kiln_status fit_geometry(const subject *s, const kiln__wisdom_entry *record, kiln__fields *out,
                                kiln_report *report)
{
    kiln__fields full;
    kiln__word line = { record->geometry, strlen(record->geometry) }, name, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &name, &value, report)) == KILN_OK && name.length > 0)
        if ((status = take_param(out, name, value, report)) != KILN_OK)
            break;
    return status == KILN_OK ? kiln__spec_resolve(&full, out, &s->target, report) : status;
}

void kiln__wisdom_apply(const kiln__wisdom_choice *choice, kiln__fields *spec)
{
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        if ((choice->set >> i & 1) != 0) {
            spec->params[i] = choice->params[i];
            spec->param_set[i] = true;
        }
}

/* Takes the candidate if it is the first that fits. *stop: no further candidate is wanted. KILN_ENOMEM: whether it
 * fits is not known. */
static kiln_status consider(const subject *s, const candidate *row, kiln__wisdom_choice *out,
                            kiln_wisdom_candidate_fn explain, void *data, bool *stop)
{
    const kiln__fields *asked = s->query->spec;
    kiln__fields fitting = *asked;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status =
        row->never == NULL ? fit_geometry(s, row->item->record, &fitting, explain != NULL ? &report : NULL) : KILN_OK;
    bool chosen = row->never == NULL && status == KILN_OK && !out->found;
    *stop = chosen && explain == NULL;
    if (chosen) {
        out->found = true;
        out->distance = row->distance;
    }
    for (uint32_t i = 0; chosen && i < asked->template->param_count; i++)
        if (fitting.param_set[i] && !asked->param_set[i]) {
            out->set |= 1u << i;
            out->params[i] = fitting.params[i];
        }
    if (explain != NULL && status != KILN_ENOMEM) {
        kiln__text reason = { 0 };
        kiln_wisdom_record record = kiln__wisdom_public_record(row->item);
        if (row->never == NULL)
            say_steps(s, row, &reason);
        const kiln_wisdom_candidate told = { .size = sizeof(told),
                                             .record = &record,
                                             .distance = row->distance,
                                             .reason = row->never != NULL ? row->never : kiln__text_string(&reason),
                                             .refusal = row->never != NULL ? "never used for this" : report.message,
                                             .chosen = chosen };
        *stop = explain(data, &told) != 0;
        kiln__text_fini(&reason);
    }
    kiln_report_clear(&report);
    return status == KILN_ENOMEM ? status : KILN_OK;
}

kiln_status kiln__wisdom_choose(kiln__wisdom_choice *out, const kiln__wisdom_item *items, size_t count,
                                const kiln__wisdom_query *query, const char *digest, kiln_wisdom_candidate_fn explain,
                                void *data, kiln_report *report)
{
    subject s;
    bool stop = false;
    candidate *rows = NULL;
    memset(out, 0, sizeof(*out));
    kiln_status status = make_subject(&s, query, digest, report);
    if (status == KILN_OK && (rows = kiln__calloc(count + 1, sizeof(*rows))) == NULL)
        status = KILN_ENOMEM;
    size_t kept = status == KILN_OK ? rank(&s, items, count, explain != NULL, rows) : 0;
    for (size_t i = 0; i < kept && status == KILN_OK && !stop; i++)
        status = consider(&s, &rows[i], out, explain, data, &stop);
    if (status == KILN_ENOMEM) {
        memset(out, 0, sizeof(*out));
        kiln__fail_memory(report, KILN__STAGE_SPEC);
    }
    kiln__free(rows);
    kiln__text_fini(&s.op);
    return status;
}
