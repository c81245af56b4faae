/* Records of wisdom, sorted sets of them, and their JSON. Reading, writing, checking and copying a record go by one
 * table of its fields. */
#include "wisdom/record.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/number.h"
#include "lang/word.h"
#include "store/store.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORMAT = 1,
    DEPTH_MAX = 16, /* of brackets in a file */
    SIZE_MAX_LOG2 = 63,
    DIGITS = 6, /* of a measurement */
    ALL_DIGITS = 17
};

typedef enum field_kind { TEXT, WHOLE, REAL } field_kind;

typedef struct record_field {
    const char *name;
    field_kind kind;
    bool required; /* must be there, a text not empty; others are "" or 0 */
    size_t offset; /* in the record */
    uint64_t max;  /* length of a text, value of a whole number */
} record_field;

/* The value of any field. */
typedef union field_value {
    const char *text;
    uint64_t whole;
    double real;
} field_value;
_Static_assert(sizeof(const char *) == sizeof(field_value), "a text is as large as a number");

#define FIELD(kind, required, name, member, max)                        \
    {                                                                   \
        name, kind, required, offsetof(kiln__wisdom_entry, member), max \
    }

/* In their order in a file. */
static const record_field fields[] = {
    FIELD(TEXT, true, "model", device.model, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "target", device.target, KILN__WISDOM_NAME_MAX),
    FIELD(WHOLE, false, "multiprocessors", device.multiprocessors, UINT32_MAX),
    FIELD(WHOLE, false, "l2_bytes", device.l2_bytes, INT64_MAX),
    FIELD(WHOLE, false, "memory_bytes", device.memory_bytes, INT64_MAX),
    FIELD(TEXT, true, "template", template_name, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "class", op_class, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "op", op, KILN__WISDOM_OP_MAX),
    FIELD(TEXT, true, "dtype", dtype, KILN__WISDOM_NAME_MAX),
    FIELD(WHOLE, true, "log2_n", log2_n, SIZE_MAX_LOG2),
    FIELD(WHOLE, false, "cols", cols, INT64_MAX),
    FIELD(TEXT, true, "geometry", geometry, KILN__WISDOM_NAME_MAX),
    FIELD(REAL, false, "ms", ms, 0),
    FIELD(REAL, false, "gbps", gbps, 0),
    FIELD(REAL, false, "ratio", ratio, 0),
    FIELD(WHOLE, false, "samples", samples, INT64_MAX),
    FIELD(WHOLE, false, "variants", variants, INT64_MAX),
    FIELD(TEXT, false, "template_digest", digest, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, false, "toolchain", toolchain, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, false, "by", maker, KILN__WISDOM_NAME_MAX),
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

const kiln__wisdom_entry kiln__wisdom_record_empty = {
    .device = { .model = "", .target = "" },
    .template_name = "",
    .op_class = "",
    .op = "",
    .dtype = "",
    .geometry = "",
    .digest = "",
    .toolchain = "",
    .maker = "",
    .extra = "",
};

static field_value value_of(const kiln__wisdom_entry *record, const record_field *field)
{
    field_value out;
    memcpy(&out, (const char *)record + field->offset, sizeof(out));
    return out;
}

static void set_value(kiln__wisdom_entry *record, const record_field *field, field_value value)
{
    memcpy((char *)record + field->offset, &value, sizeof(value));
}

static bool is_printable(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* NULL, or the reason to refuse a value. */
static const char *refuse_value(const record_field *field, field_value value)
{
    switch (field->kind) {
    case TEXT:
        return field->required && value.text[0] == '\0' ? "is missing"
               : strlen(value.text) > field->max        ? "is too long"
               : !is_printable(value.text)              ? "holds more than printable ASCII"
                                                        : NULL;
    case WHOLE:
        return value.whole > field->max ? "is too large" : NULL;
    default:
        return isfinite(value.real) && value.real >= 0 ? NULL : "is not a number of 0 or more";
    }
}

bool kiln__wisdom_record_check(const kiln__wisdom_entry *record, char problem[KILN__WISDOM_REASON])
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *reason = refuse_value(&fields[i], value_of(record, &fields[i]));
        if (reason != NULL) {
            snprintf(problem, KILN__WISDOM_REASON, "%s %s", fields[i].name, reason);
            return false;
        }
    }
    return true;
}

int kiln__wisdom_record_compare(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b)
{
    const char *const left[] = { a->device.model, a->device.target, a->template_name, a->op, a->dtype };
    const char *const right[] = { b->device.model, b->device.target, b->template_name, b->op, b->dtype };
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        int order = strcmp(left[i], right[i]);
        if (order != 0)
            return order;
    }
    if (a->log2_n != b->log2_n)
        return a->log2_n > b->log2_n ? 1 : -1;
    return (a->cols > b->cols) - (a->cols < b->cols);
}

bool kiln__wisdom_record_equal(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b)
{
    for (size_t i = 0; i < FIELDS; i++) {
        field_value left = value_of(a, &fields[i]), right = value_of(b, &fields[i]);
        if (fields[i].kind == TEXT    ? strcmp(left.text, right.text) != 0
            : fields[i].kind == WHOLE ? left.whole != right.whole
                                      : left.real != right.real)
            return false;
    }
    return strcmp(a->extra, b->extra) == 0;
}

/* ---- Sets */

/* One block: the record and behind it its texts, those of the fields and last the extra one. */
static kiln__wisdom_entry *copy_record(const kiln__wisdom_entry *record)
{
    size_t size = sizeof(*record) + strlen(record->extra) + 1;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].kind == TEXT)
            size += strlen(value_of(record, &fields[i]).text) + 1;
    kiln__wisdom_entry *out = kiln__alloc(size);
    if (out == NULL)
        return NULL;
    *out = *record;
    char *at = (char *)(out + 1);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].kind != TEXT)
            continue;
        set_value(out, &fields[i], (field_value){ .text = at });
        at = stpcpy(at, value_of(record, &fields[i]).text) + 1;
    }
    out->extra = at;
    stpcpy(at, record->extra);
    return out;
}

/* The index of the first record that does not come before this one; *has: it is about the same. */
static size_t find_place(const kiln__wisdom_set *set, const kiln__wisdom_entry *record, bool *has)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kiln__wisdom_record_compare(set->records[middle], record) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *has = low < set->count && kiln__wisdom_record_compare(set->records[low], record) == 0;
    return low;
}

bool kiln__wisdom_set_has(const kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    bool has;
    find_place(set, record, &has);
    return has;
}

static bool make_room(kiln__wisdom_set *set)
{
    if (set->count < set->room)
        return true;
    size_t room = set->room > 0 ? 2 * set->room : 16;
    kiln__wisdom_entry **records = kiln__realloc(set->records, room * sizeof(kiln__wisdom_entry *));
    if (records == NULL)
        return false;
    set->records = records;
    set->room = room;
    return true;
}

/* Times of two runs do not compare, for clocks and neighbours differ; the number of variants that were tried does. */
static bool is_better_founded(const kiln__wisdom_entry *old, const kiln__wisdom_entry *fresh)
{
    return strcmp(old->digest, fresh->digest) == 0 && strcmp(old->toolchain, fresh->toolchain) == 0 &&
           old->variants > fresh->variants;
}

/* Of results from several machines the newest compiler's counts, then that of the widest search, and of the most
 * samples. */
static bool is_better_known(const kiln__wisdom_entry *old, const kiln__wisdom_entry *fresh)
{
    const int order = kiln__toolchain_compare(old->toolchain, fresh->toolchain);
    if (order != 0)
        return order > 0;
    return old->variants != fresh->variants ? old->variants > fresh->variants : old->samples >= fresh->samples;
}

typedef bool (*keeps_old)(const kiln__wisdom_entry *old, const kiln__wisdom_entry *fresh);

static kiln__wisdom_fate insert_record(kiln__wisdom_set *set, const kiln__wisdom_entry *record, size_t limit,
                                       keeps_old keeps)
{
    bool has;
    size_t place = find_place(set, record, &has);
    kiln__wisdom_entry *old = has ? set->records[place] : NULL;
    if (has && kiln__wisdom_record_equal(old, record))
        return KILN__WISDOM_EQUAL;
    if (has && keeps(old, record))
        return KILN__WISDOM_OLDER_KEPT;
    if (!has && set->count >= limit)
        return KILN__WISDOM_FULL;
    kiln__wisdom_entry *fresh = has || make_room(set) ? copy_record(record) : NULL;
    if (fresh == NULL)
        return KILN__WISDOM_NO_MEMORY;
    kiln__wisdom_entry **slot = &set->records[place];
    if (!has)
        memmove(slot + 1, slot, (set->count++ - place) * sizeof(kiln__wisdom_entry *));
    *slot = fresh;
    kiln__free(old);
    return has ? KILN__WISDOM_REPLACED : KILN__WISDOM_ADDED;
}

kiln__wisdom_fate kiln__wisdom_set_add(kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    return insert_record(set, record, KILN__WISDOM_RECORDS_MAX, is_better_founded);
}

kiln__wisdom_fate kiln__wisdom_set_add_best(kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    return insert_record(set, record, KILN__WISDOM_RECORDS_MAX, is_better_known);
}

kiln__wisdom_fate kiln__wisdom_set_add_all(kiln__wisdom_set *set, kiln__wisdom_entry *const *records, size_t count,
                                           kiln__wisdom_counts *tally)
{
    for (size_t i = 0; i < count; i++) {
        kiln__wisdom_fate fate = kiln__wisdom_set_add(set, records[i]);
        if (fate == KILN__WISDOM_FULL || fate == KILN__WISDOM_NO_MEMORY)
            return fate;
        tally->added += fate == KILN__WISDOM_ADDED;
        tally->replaced += fate == KILN__WISDOM_REPLACED;
        tally->equal += fate == KILN__WISDOM_EQUAL;
        tally->older_kept += fate == KILN__WISDOM_OLDER_KEPT;
    }
    return KILN__WISDOM_ADDED;
}

bool kiln__wisdom_set_join(kiln__wisdom_set *set, const kiln__wisdom_set *more)
{
    bool good = true;
    for (size_t i = 0; i < more->count && good; i++)
        good = insert_record(set, more->records[i], SIZE_MAX, is_better_founded) != KILN__WISDOM_NO_MEMORY;
    return good;
}

void kiln__wisdom_set_fini(kiln__wisdom_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        kiln__free(set->records[i]);
    kiln__free(set->records);
    *set = (kiln__wisdom_set){ 0 };
}

/* ---- Reading */

static kiln__wisdom_fault damaged(char reason[KILN__WISDOM_REASON], const char *format, ...) KILN__PRINTF(2, 3);
static kiln__wisdom_fault damaged(char reason[KILN__WISDOM_REASON], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, KILN__WISDOM_REASON, format, arguments);
    va_end(arguments);
    return KILN__WISDOM_DAMAGED;
}

/* The parser calls itself for each level: a file that nests deep must not reach it. */
static bool is_shallow(const char *bytes, size_t length)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length && depth <= DEPTH_MAX; i++) {
        char c = bytes[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    return depth <= DEPTH_MAX;
}

/* NULL, or the kind of value that was expected. */
static const char *read_value(const record_field *field, const json_t *from, kiln__wisdom_entry *out)
{
    field_value value;
    switch (field->kind) {
    case TEXT:
        if (!json_is_string(from))
            return "a text";
        value.text = json_string_value(from);
        break;
    case WHOLE:
        if (!json_is_integer(from) || json_integer_value(from) < 0)
            return "a whole number";
        value.whole = (uint64_t)json_integer_value(from);
        break;
    default:
        if (!json_is_number(from))
            return "a number";
        value.real = json_number_value(from) + 0.0; /* -0.0 becomes 0.0: a record has one form */
    }
    set_value(out, field, value);
    return NULL;
}

static int append_bytes(const char *bytes, size_t length, void *data)
{
    kiln__text_append_bytes(data, bytes, length);
    return 0;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0)
            return true;
    return false;
}

/* A field that is unknown here is kept as its text: a later version of Kiln may have written it. */
static kiln__wisdom_fault keep_unknown(json_t *object, kiln__text *extra, char reason[KILN__WISDOM_REASON])
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        kiln__word word = { name, strlen(name) };
        if (is_known(name))
            continue;
        if (!kiln__word_is_name(word))
            return damaged(reason, "'%s' is no name of a field", kiln__word_quote(word).text);
        kiln__text_printf(extra, ", \"%s\": ", name);
        if (json_dump_callback(value, append_bytes, extra,
                               JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(ALL_DIGITS)) != 0 ||
            extra->failed)
            return KILN__WISDOM_OUT_OF_MEMORY;
        if (extra->length > KILN__WISDOM_OP_MAX)
            return damaged(reason, "its unknown fields are too long");
    }
    return KILN__WISDOM_GOOD;
}

/* Texts of *out are borrowed from the object and from extra. */
static kiln__wisdom_fault read_fields(json_t *object, kiln__wisdom_entry *out, kiln__text *extra,
                                      char reason[KILN__WISDOM_REASON])
{
    kiln__wisdom_fault fault = KILN__WISDOM_GOOD;
    size_t known = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *from = json_object_get(object, fields[i].name);
        const char *wanted = from != NULL ? read_value(&fields[i], from, out) : NULL;
        known += from != NULL;
        if (wanted != NULL)
            return damaged(reason, "%s must be %s", fields[i].name, wanted);
        if (from == NULL && fields[i].required)
            return damaged(reason, "%s is missing", fields[i].name);
    }
    if (known < json_object_size(object))
        fault = keep_unknown(object, extra, reason);
    out->extra = kiln__text_string(extra);
    return fault;
}

static kiln__wisdom_fault read_record(kiln__wisdom_set *set, json_t *object, char reason[KILN__WISDOM_REASON])
{
    kiln__wisdom_entry record = kiln__wisdom_record_empty;
    kiln__text extra = { 0 };
    if (!json_is_object(object))
        return damaged(reason, "it is not an object");
    kiln__wisdom_fault fault = read_fields(object, &record, &extra, reason);
    if (fault == KILN__WISDOM_GOOD && !kiln__wisdom_record_check(&record, reason))
        fault = KILN__WISDOM_DAMAGED;
    kiln__wisdom_fate fate = fault == KILN__WISDOM_GOOD ? kiln__wisdom_set_add(set, &record) : KILN__WISDOM_ADDED;
    kiln__text_fini(&extra);
    if (fate == KILN__WISDOM_FULL)
        return damaged(reason, "there are more than %d", KILN__WISDOM_RECORDS_MAX);
    return fate == KILN__WISDOM_NO_MEMORY ? KILN__WISDOM_OUT_OF_MEMORY : fault;
}

static kiln__wisdom_fault read_file(kiln__wisdom_set *set, const char *bytes, size_t length, json_t **file,
                                    char problem[KILN__WISDOM_REASON])
{
    json_error_t error;
    kiln__wisdom_fault fault = KILN__WISDOM_GOOD;
    if (!is_shallow(bytes, length))
        return damaged(problem, "it nests deeper than %d", DEPTH_MAX);
    *file = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    if (*file == NULL && json_error_code(&error) == json_error_out_of_memory)
        return KILN__WISDOM_OUT_OF_MEMORY;
    if (*file == NULL)
        return damaged(problem, "line %d, column %d: %.150s", error.line, error.column, error.text);
    const json_t *format = json_object_get(*file, "format"), *records = json_object_get(*file, "records");
    if (json_is_integer(format) && json_integer_value(format) > FORMAT) {
        snprintf(problem, KILN__WISDOM_REASON, "it has format %lld, and this version of Kiln reads format %d",
                 (long long)json_integer_value(format), FORMAT);
        return KILN__WISDOM_NEWER;
    }
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT || !json_is_array(records))
        return damaged(problem, "it is not an object with \"format\": %d and an array \"records\"", FORMAT);
    for (size_t i = 0; i < json_array_size(records) && fault == KILN__WISDOM_GOOD; i++) {
        char reason[KILN__WISDOM_REASON] = "";
        fault = read_record(set, json_array_get(records, i), reason);
        if (fault == KILN__WISDOM_DAMAGED)
            snprintf(problem, KILN__WISDOM_REASON, "record %zu: %.200s", i + 1, reason);
    }
    return fault;
}

kiln__wisdom_fault kiln__wisdom_read(kiln__wisdom_set *out, const char *bytes, size_t length,
                                     char problem[KILN__WISDOM_REASON])
{
    json_t *file = NULL;
    kiln__fpenv host;
    *out = (kiln__wisdom_set){ 0 };
    problem[0] = '\0';
    kiln__fpenv_enter(&host);
    kiln__wisdom_fault fault = read_file(out, bytes, length, &file, problem);
    json_decref(file);
    kiln__fpenv_leave(&host);
    if (fault == KILN__WISDOM_OUT_OF_MEMORY)
        snprintf(problem, KILN__WISDOM_REASON, "out of memory");
    if (fault != KILN__WISDOM_GOOD)
        kiln__wisdom_set_fini(out);
    return fault;
}

/* ---- Writing */

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
 * so that the text reads back as the same text. */
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

static void append_record(kiln__text *out, const kiln__wisdom_entry *record)
{
    for (size_t i = 0; i < FIELDS; i++) {
        field_value value = value_of(record, &fields[i]);
        kiln__text_printf(out, "%s\"%s\": ", i == 0 ? "{" : ", ", fields[i].name);
        if (fields[i].kind == TEXT)
            append_quoted(out, value.text);
        else if (fields[i].kind == WHOLE)
            kiln__text_printf(out, "%" PRIu64, value.whole);
        else
            append_real(out, value.real);
    }
    kiln__text_append(out, record->extra);
    kiln__text_append(out, "}");
}

void kiln__wisdom_write(const kiln__wisdom_set *set, kiln__text *out)
{
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    kiln__text_printf(out, "{\n\"format\": %d,\n\"records\": [", FORMAT);
    for (size_t i = 0; i < set->count; i++) {
        kiln__text_append(out, i == 0 ? "\n" : ",\n");
        append_record(out, set->records[i]);
    }
    kiln__text_append(out, "\n]\n}\n");
    kiln__fpenv_leave(&host);
}
