#include "tune/tuneresult.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

/* ---- The form: writing, reading and freeing go by these tables */

typedef enum field_kind {
    FIELD_TEXT,       /* char * */
    FIELD_OPTIONAL,   /* the same; NULL: the member is not there */
    FIELD_VERDICT,    /* const char *: one of the words of variants.h */
    FIELD_COUNT,      /* uint64_t */
    FIELD_REAL,       /* double; infinity is null */
    FIELD_FLAG,       /* bool */
    FIELD_PER_THREAD, /* int; -1 is null */
    FIELD_STATUS      /* kiln_status: a failure's */
} field_kind;

typedef struct json_field {
    const char *name;
    field_kind kind;
    size_t offset;
} json_field;

#define FIELD(kind, type, name, member)            \
    {                                              \
        name, FIELD_##kind, offsetof(type, member) \
    }

static const json_field failure_fields[] = {
    FIELD(STATUS, tune_result, "status", status),
    FIELD(TEXT, tune_result, "message", message),
    FIELD(OPTIONAL, tune_result, "log", log),
    FIELD(OPTIONAL, tune_result, "suspect", suspect),
    { .name = NULL },
};

static const json_field tuning_fields[] = {
    FIELD(TEXT, tune_result, "device", device),
    FIELD(COUNT, tune_result, "elements", elements),
    FIELD(COUNT, tune_result, "bytes", bytes),
    FIELD(COUNT, tune_result, "variants", variants),
    FIELD(COUNT, tune_result, "impossible", impossible),
    FIELD(COUNT, tune_result, "out", out),
    FIELD(COUNT, tune_result, "rounds", rounds),
    FIELD(COUNT, tune_result, "samples", samples),
    FIELD(REAL, tune_result, "default_ms", default_ms),
    FIELD(REAL, tune_result, "regret", regret),
    FIELD(REAL, tune_result, "seconds", seconds),
    FIELD(TEXT, tune_result, "end", end),
    FIELD(TEXT, tune_result, "against", against),
    FIELD(FLAG, tune_result, "learnt", learnt),
    FIELD(TEXT, tune_result, "wisdom", wisdom),
    FIELD(TEXT, tune_result, "not_learnt", not_learnt),
    FIELD(TEXT, tune_result, "spec", spec),
    { .name = NULL },
};

static const json_field row_fields[] = {
    FIELD(TEXT, variant_row, "spec", spec),
    FIELD(VERDICT, variant_row, "verdict", verdict),
    FIELD(TEXT, variant_row, "problem", problem),
    FIELD(REAL, variant_row, "time_ms", ms),
    FIELD(REAL, variant_row, "gbps", gbps),
    FIELD(REAL, variant_row, "ratio", ratio),
    FIELD(REAL, variant_row, "ratio_low", low),
    FIELD(REAL, variant_row, "ratio_high", high),
    FIELD(COUNT, variant_row, "samples", samples),
    FIELD(PER_THREAD, variant_row, "registers", registers),
    FIELD(PER_THREAD, variant_row, "local_bytes", local_bytes),
    { .name = NULL },
};

/* ---- Making */

tune_result *tune_result_make(const kiln_tuning_info *info)
{
    tune_result *result = need_alloc(sizeof(*result));
    *result = (tune_result){ .device = need_copy(info->device),
                             .end = need_copy(info->end),
                             .against = need_copy(info->verified_by),
                             .not_learnt = need_copy(info->not_learnt),
                             .spec = need_copy(info->results[0]->spec),
                             .elements = info->elements,
                             .bytes = info->bytes,
                             .variants = info->variants,
                             .impossible = info->impossible,
                             .out = info->rejected,
                             .rounds = info->rounds,
                             .samples = info->samples,
                             .default_ms = info->default_ms,
                             .regret = info->regret,
                             .seconds = info->seconds,
                             .learnt = *info->wisdom != '\0',
                             .rows = need_array(NULL, info->result_count, sizeof(*result->rows)),
                             .row_count = info->result_count };
    for (size_t i = 0; i < result->row_count; i++)
        result->rows[i] = variants_row(info->results[i], info->bytes);
    return result;
}

tune_result *tune_result_fail(kiln_status status, const char *message, const char *log, const char *suspect)
{
    tune_result *result = need_alloc(sizeof(*result));
    *result = (tune_result){ .status = status,
                             .message = need_copy(message),
                             .log = log ? need_copy(log) : NULL,
                             .suspect = suspect ? need_copy(suspect) : NULL };
    return result;
}

static void free_fields(void *from, const json_field *fields)
{
    for (const json_field *one = fields; one->name; one++)
        if (one->kind == FIELD_TEXT || one->kind == FIELD_OPTIONAL)
            free(*(char **)((char *)from + one->offset));
}

static void free_texts(text_list *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free((char *)(uintptr_t)texts->items[i]);
    free(texts->items);
}

void tune_result_free(tune_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->row_count; i++)
        free_fields(&result->rows[i], row_fields);
    free_fields(result, tuning_fields);
    free_fields(result, failure_fields);
    free_texts(&result->values.sizes);
    free_texts(&result->values.numbers);
    free(result->rows);
    free(result);
}

/* ---- Writing */

static void put_field(json_t *object, const json_field *field, const void *at)
{
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_OPTIONAL:
    case FIELD_VERDICT:
        if (*(const char *const *)at)
            json_put_text(object, field->name, *(const char *const *)at);
        break;
    case FIELD_COUNT:
        json_put_count(object, field->name, *(const uint64_t *)at);
        break;
    case FIELD_REAL:
        json_put_real(object, field->name, *(const double *)at);
        break;
    case FIELD_FLAG:
        json_put_bool(object, field->name, *(const bool *)at);
        break;
    case FIELD_PER_THREAD:
        json_put_known(object, field->name, *(const int *)at);
        break;
    case FIELD_STATUS:
        json_put(object, field->name, json_integer(*(const kiln_status *)at));
        break;
    }
}

static json_t *fields_json(const void *from, const json_field *fields)
{
    json_t *object = json_new();
    for (const json_field *one = fields; one->name; one++)
        put_field(object, one, (const char *)from + one->offset);
    return object;
}

/* Sizes are numbers in JSON. Numbers are texts, for a double of JSON does not hold every one of them. */
static json_t *values_json(const text_list *texts, bool are_sizes)
{
    json_t *object = json_new();
    for (size_t i = 0; i < texts->count; i++) {
        char *name = need_copy(texts->items[i]), *value = strchr(name, '=');
        *value++ = '\0';
        if (are_sizes)
            json_put_count(object, name, strtoull(value, NULL, 10));
        else
            json_put_text(object, name, value);
        free(name);
    }
    return object;
}

json_t *tune_result_json(const tune_result *result)
{
    if (result->status) {
        json_t *failure = json_new();
        json_put(failure, "error", fields_json(result, failure_fields));
        return failure;
    }
    json_t *object = fields_json(result, tuning_fields), *rows = json_list();
    for (size_t i = 0; i < result->row_count; i++)
        json_add(rows, fields_json(&result->rows[i], row_fields));
    json_put(object, "variant_results", rows);
    if (result->has_values) {
        json_put(object, "sizes", values_json(&result->values.sizes, true));
        json_put(object, "args", values_json(&result->values.numbers, false));
    }
    return object;
}

/* ---- Reading: false where something is missing or of another type */

static bool read_field(void *at, field_kind kind, const json_t *value)
{
    json_int_t whole = json_integer_value(value);
    switch (kind) {
    case FIELD_TEXT:
    case FIELD_OPTIONAL:
        *(char **)at = json_is_string(value) ? need_copy(json_string_value(value)) : NULL;
        return *(char **)at || (kind == FIELD_OPTIONAL && !value);
    case FIELD_VERDICT:
        *(const char **)at = json_is_string(value) ? variants_verdict_like(json_string_value(value)) : NULL;
        return *(const char **)at;
    case FIELD_COUNT:
        *(uint64_t *)at = (uint64_t)whole;
        return json_is_integer(value) && whole >= 0;
    case FIELD_REAL:
        *(double *)at = json_is_null(value) ? INFINITY : json_number_value(value);
        return json_is_null(value) || json_is_number(value);
    case FIELD_FLAG:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value);
    case FIELD_PER_THREAD:
        *(int *)at = json_is_null(value) ? -1 : (int)whole;
        return json_is_null(value) || (json_is_integer(value) && whole >= 0 && whole <= INT_MAX);
    case FIELD_STATUS:
        *(kiln_status *)at = (kiln_status)whole;
        return whole < 0 && whole >= INT_MIN;
    }
    return false;
}

static bool read_fields(void *to, const json_field *fields, const json_t *object)
{
    for (; fields->name; fields++)
        if (!read_field((char *)to + fields->offset, fields->kind, json_object_get(object, fields->name)))
            return false;
    return true;
}

static bool read_rows(tune_result *to, const json_t *list)
{
    size_t count = json_array_size(list);
    to->rows = need_alloc(count * sizeof(*to->rows));
    while (to->row_count < count) {
        variant_row *row = &to->rows[to->row_count];
        if (!read_fields(row, row_fields, json_array_get(list, to->row_count++)))
            return false;
    }
    return json_is_array(list);
}

static bool read_values(text_list *to, json_t *object, bool are_sizes)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (are_sizes ? !json_is_integer(value) : !json_is_string(value))
            return false;
        text_list_add(to, are_sizes ? need_format("%s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value))
                                    : need_format("%s=%s", name, json_string_value(value)));
    }
    return json_is_object(object);
}

static bool read_tuning(tune_result *to, const json_t *object)
{
    json_t *sizes = json_object_get(object, "sizes"), *numbers = json_object_get(object, "args");
    if (!read_fields(to, tuning_fields, object) || !read_rows(to, json_object_get(object, "variant_results")))
        return false;
    to->has_values = sizes || numbers;
    return !to->has_values ||
           (read_values(&to->values.sizes, sizes, true) && read_values(&to->values.numbers, numbers, false));
}

tune_result *tune_result_read(const json_t *object)
{
    tune_result *result = need_alloc(sizeof(*result));
    const json_t *failure = json_object_get(object, "error");
    if (failure ? read_fields(result, failure_fields, failure) : read_tuning(result, object))
        return result;
    tune_result_free(result);
    return NULL;
}
