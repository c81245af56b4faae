#include "wisdom/json.h"

#include "base/fpenv.h"
#include "base/number.h"
#include "lang/word.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 6, ALL_DIGITS = 17 };

/* The parser calls itself for each level: what nests deep must not reach it. */
static bool is_shallow(const char *bytes, size_t length)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']'))
            depth--;
        if (depth > KILN__WISDOM_DEPTH_MAX)
            return false;
    }
    return true;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < kiln__wisdom_field_count; i++)
        if (strcmp(kiln__wisdom_fields[i].name, name) == 0)
            return true;
    return false;
}

/* NULL, or what the value should have been. */
static const char *read_value(const kiln__wisdom_field *field, const json_t *value, kiln__wisdom_entry *out)
{
    void *to = (char *)out + field->offset;
    switch (field->kind) {
    case KILN__WISDOM_TEXT:
        if (!json_is_string(value))
            return "a text";
        *(const char **)to = json_string_value(value);
        return NULL;
    case KILN__WISDOM_WHOLE:
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return "a whole number";
        *(uint64_t *)to = (uint64_t)json_integer_value(value);
        return NULL;
    default:
        if (!json_is_number(value))
            return "a number";
        *(double *)to = json_number_value(value) + 0.0; /* -0.0 becomes 0.0: a record has one form */
        return NULL;
    }
}

static int append(const char *bytes, size_t length, void *data)
{
    kiln__text_append_bytes(data, bytes, length);
    return 0;
}

/* A field that is unknown here is kept as its text: a later version of Kiln may have written it. */
static kiln__wisdom_fault keep_unknown(const char *name, const json_t *value, kiln__text *extra, char *reason)
{
    if (!kiln__word_is_name((kiln__word){ name, strlen(name) })) {
        snprintf(reason, KILN__WISDOM_REASON, "'%s' is no name of a field",
                 kiln__word_quote((kiln__word){ name, strlen(name) }).text);
        return KILN__WISDOM_DAMAGED;
    }
    kiln__text_printf(extra, ", \"%s\": ", name);
    int error =
        json_dump_callback(value, append, extra, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(ALL_DIGITS));
    if (error != 0 || extra->failed)
        return KILN__WISDOM_OUT_OF_MEMORY;
    if (extra->length <= KILN__WISDOM_OP_MAX)
        return KILN__WISDOM_GOOD;
    snprintf(reason, KILN__WISDOM_REASON, "its unknown fields are too long");
    return KILN__WISDOM_DAMAGED;
}

static kiln__wisdom_fault keep_all_unknown(json_t *object, kiln__text *extra, char *reason)
{
    const char *name;
    json_t *value;
    kiln__wisdom_fault fault = KILN__WISDOM_GOOD;
    json_object_foreach(object, name, value)
    {
        if (!is_known(name))
            fault = keep_unknown(name, value, extra, reason);
        if (fault != KILN__WISDOM_GOOD)
            break;
    }
    return fault;
}

/* Texts of *out are borrowed from the object and from extra. */
static kiln__wisdom_fault read_fields(json_t *object, kiln__wisdom_entry *out, kiln__text *extra, char *reason)
{
    size_t known = 0;
    kiln__wisdom_fault fault = KILN__WISDOM_GOOD;
    for (size_t i = 0; i < kiln__wisdom_field_count; i++) {
        const kiln__wisdom_field *field = &kiln__wisdom_fields[i];
        const json_t *value = json_object_get(object, field->name);
        const char *wanted = value != NULL ? read_value(field, value, out) : NULL;
        known += value != NULL;
        if (wanted != NULL || (value == NULL && field->required)) {
            snprintf(reason, KILN__WISDOM_REASON, wanted != NULL ? "%s must be %s" : "%s is missing", field->name,
                     wanted);
            return KILN__WISDOM_DAMAGED;
        }
    }
    if (known < json_object_size(object))
        fault = keep_all_unknown(object, extra, reason);
    out->extra = kiln__text_string(extra);
    return fault;
}

static kiln__wisdom_fault add_record(kiln__wisdom_set *set, const kiln__wisdom_entry *record, char *reason)
{
    if (!kiln__wisdom_record_check(record, reason))
        return KILN__WISDOM_DAMAGED;
    switch (kiln__wisdom_set_add(set, record)) {
    case KILN__WISDOM_NO_MEMORY:
        return KILN__WISDOM_OUT_OF_MEMORY;
    case KILN__WISDOM_FULL:
        snprintf(reason, KILN__WISDOM_REASON, "there are more than %d", KILN__WISDOM_RECORDS_MAX);
        return KILN__WISDOM_DAMAGED;
    default:
        return KILN__WISDOM_GOOD;
    }
}

static kiln__wisdom_fault read_record(kiln__wisdom_set *set, json_t *object, char *reason)
{
    kiln__wisdom_entry record = kiln__wisdom_record_empty;
    kiln__text extra = { 0 };
    if (!json_is_object(object)) {
        snprintf(reason, KILN__WISDOM_REASON, "it is not an object");
        return KILN__WISDOM_DAMAGED;
    }
    kiln__wisdom_fault fault = read_fields(object, &record, &extra, reason);
    if (fault == KILN__WISDOM_GOOD)
        fault = add_record(set, &record, reason);
    kiln__text_fini(&extra);
    return fault;
}

static kiln__wisdom_fault read_file(kiln__wisdom_set *set, json_t *file, char problem[KILN__WISDOM_REASON])
{
    const json_t *format = json_object_get(file, "format"), *records = json_object_get(file, "records");
    if (json_is_integer(format) && json_integer_value(format) > KILN__WISDOM_FORMAT) {
        snprintf(problem, KILN__WISDOM_REASON, "it has format %lld, and this version of Kiln reads format %d",
                 (long long)json_integer_value(format), KILN__WISDOM_FORMAT);
        return KILN__WISDOM_NEWER;
    }
    if (!json_is_integer(format) || json_integer_value(format) != KILN__WISDOM_FORMAT || !json_is_array(records)) {
        snprintf(problem, KILN__WISDOM_REASON, "it is not an object with \"format\": %d and an array \"records\"",
                 KILN__WISDOM_FORMAT);
        return KILN__WISDOM_DAMAGED;
    }
    kiln__wisdom_fault fault = KILN__WISDOM_GOOD;
    for (size_t i = 0; i < json_array_size(records) && fault == KILN__WISDOM_GOOD; i++) {
        char reason[KILN__WISDOM_REASON] = "";
        fault = read_record(set, json_array_get(records, i), reason);
        if (fault == KILN__WISDOM_DAMAGED)
            snprintf(problem, KILN__WISDOM_REASON, "record %zu: %.200s", i + 1, reason);
    }
    return fault;
}

static kiln__wisdom_fault parse(json_t **out, const char *bytes, size_t length, char problem[KILN__WISDOM_REASON])
{
    json_error_t error;
    *out = NULL;
    if (!is_shallow(bytes, length)) {
        snprintf(problem, KILN__WISDOM_REASON, "it nests deeper than %d", KILN__WISDOM_DEPTH_MAX);
        return KILN__WISDOM_DAMAGED;
    }
    *out = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    if (*out != NULL)
        return KILN__WISDOM_GOOD;
    if (json_error_code(&error) == json_error_out_of_memory)
        return KILN__WISDOM_OUT_OF_MEMORY;
    snprintf(problem, KILN__WISDOM_REASON, "line %d, column %d: %.150s", error.line, error.column, error.text);
    return KILN__WISDOM_DAMAGED;
}

kiln__wisdom_fault kiln__wisdom_read(kiln__wisdom_set *out, const char *bytes, size_t length,
                                     char problem[KILN__WISDOM_REASON])
{
    json_t *file;
    kiln__fpenv host;
    *out = (kiln__wisdom_set){ 0 };
    problem[0] = '\0';
    kiln__fpenv_enter(&host);
    kiln__wisdom_fault fault = parse(&file, bytes, length, problem);
    if (fault == KILN__WISDOM_GOOD)
        fault = read_file(out, file, problem);
    json_decref(file);
    kiln__fpenv_leave(&host);
    if (fault == KILN__WISDOM_OUT_OF_MEMORY)
        snprintf(problem, KILN__WISDOM_REASON, "out of memory");
    if (fault != KILN__WISDOM_GOOD)
        kiln__wisdom_set_fini(out);
    return fault;
}

/* Printable ASCII needs no other escapes. */
static void append_quoted(kiln__text *out, const char *text)
{
    kiln__text_append(out, "\"");
    for (size_t length; *text != '\0'; text += length) {
        length = strcspn(text, "\"\\");
        kiln__text_append_bytes(out, text, length);
        if (text[length] != '\0')
            kiln__text_printf(out, "\\%c", text[length++]);
    }
    kiln__text_append(out, "\"");
}

/* Six digits are more than any measurement has, and keep a line short. Within these bounds powers of ten are exact,
 * so that what is written reads back as what would be written again. */
static void append_real(kiln__text *out, double value)
{
    char digits[KILN__NUMBER_SIZE];
    if (value < 1e-9 || value > 1e15) {
        kiln__number_format(digits, value);
        kiln__text_append(out, digits);
        return;
    }
    int places = DIGITS - 1 - (int)floor(log10(value));
    uint64_t scale = (uint64_t)pow(10, abs(places)), number;
    if (places <= 0) {
        number = (uint64_t)round(value / (double)scale) * scale;
        kiln__text_printf(out, "%" PRIu64, number);
        return;
    }
    number = (uint64_t)round(value * (double)scale);
    for (; places > 0 && number % 10 == 0; places--, scale /= 10)
        number /= 10;
    kiln__text_printf(out, "%" PRIu64, number / scale);
    if (places > 0)
        kiln__text_printf(out, ".%0*" PRIu64, places, number % scale);
}

static void append_value(kiln__text *out, const kiln__wisdom_entry *record, const kiln__wisdom_field *field)
{
    const void *from = (const char *)record + field->offset;
    switch (field->kind) {
    case KILN__WISDOM_TEXT:
        append_quoted(out, *(const char *const *)from);
        break;
    case KILN__WISDOM_WHOLE:
        kiln__text_printf(out, "%" PRIu64, *(const uint64_t *)from);
        break;
    default:
        append_real(out, *(const double *)from);
    }
}

void kiln__wisdom_write_record(const kiln__wisdom_entry *record, kiln__text *out)
{
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    for (size_t i = 0; i < kiln__wisdom_field_count; i++) {
        kiln__text_printf(out, "%s\"%s\": ", i == 0 ? "{" : ", ", kiln__wisdom_fields[i].name);
        append_value(out, record, &kiln__wisdom_fields[i]);
    }
    kiln__fpenv_leave(&host);
    kiln__text_append(out, record->extra);
    kiln__text_append(out, "}");
}

void kiln__wisdom_write(const kiln__wisdom_set *set, bool (*wanted)(void *data, const kiln__wisdom_entry *record),
                        void *data, kiln__text *out)
{
    const char *separator = "\n";
    kiln__text_printf(out, "{\n\"format\": %d,\n\"records\": [", KILN__WISDOM_FORMAT);
    for (size_t i = 0; i < set->count; i++) {
        if (wanted != NULL && !wanted(data, set->records[i]))
            continue;
        kiln__text_append(out, separator);
        kiln__wisdom_write_record(set->records[i], out);
        separator = ",\n";
    }
    kiln__text_append(out, "\n]\n}\n");
}
