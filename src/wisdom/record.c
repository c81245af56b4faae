#include "wisdom/record.h"

#include "base/alloc.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIELD(kind, required, name, member, max)                                       \
    {                                                                                  \
        name, KILN__WISDOM_##kind, required, offsetof(kiln__wisdom_entry, member), max \
    }

const kiln__wisdom_field kiln__wisdom_fields[] = {
    FIELD(TEXT, true, "model", device.model, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "target", device.target, KILN__WISDOM_NAME_MAX),
    FIELD(WHOLE, false, "multiprocessors", device.multiprocessors, UINT32_MAX),
    FIELD(WHOLE, false, "l2_bytes", device.l2_bytes, INT64_MAX),
    FIELD(WHOLE, false, "memory_bytes", device.memory_bytes, INT64_MAX),
    FIELD(TEXT, true, "template", template_name, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "class", op_class, KILN__WISDOM_NAME_MAX),
    FIELD(TEXT, true, "op", op, KILN__WISDOM_OP_MAX),
    FIELD(TEXT, true, "dtype", dtype, KILN__WISDOM_NAME_MAX),
    FIELD(WHOLE, true, "log2_n", log2_n, KILN__WISDOM_SIZE_MAX),
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
const size_t kiln__wisdom_field_count = sizeof(kiln__wisdom_fields) / sizeof(kiln__wisdom_fields[0]);

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

static const char *text_of(const kiln__wisdom_entry *record, const kiln__wisdom_field *field)
{
    return *(const char *const *)((const char *)record + field->offset);
}

static uint64_t whole_of(const kiln__wisdom_entry *record, const kiln__wisdom_field *field)
{
    return *(const uint64_t *)((const char *)record + field->offset);
}

static double real_of(const kiln__wisdom_entry *record, const kiln__wisdom_field *field)
{
    return *(const double *)((const char *)record + field->offset);
}

static bool is_printable(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

static const char *refuse_text(const kiln__wisdom_field *field, const char *text)
{
    return field->required && text[0] == '\0' ? "is missing"
           : strlen(text) > field->max        ? "is too long"
           : !is_printable(text)              ? "holds more than printable ASCII"
                                              : NULL;
}

static const char *refuse_field(const kiln__wisdom_entry *record, const kiln__wisdom_field *field)
{
    if (field->kind == KILN__WISDOM_TEXT)
        return refuse_text(field, text_of(record, field));
    if (field->kind == KILN__WISDOM_WHOLE)
        return whole_of(record, field) > field->max ? "is too large" : NULL;
    double value = real_of(record, field);
    return isfinite(value) && value >= 0 ? NULL : "is not a number of 0 or more";
}

bool kiln__wisdom_record_check(const kiln__wisdom_entry *record, char problem[KILN__WISDOM_REASON])
{
    for (size_t i = 0; i < kiln__wisdom_field_count; i++) {
        const char *reason = refuse_field(record, &kiln__wisdom_fields[i]);
        if (reason != NULL) {
            snprintf(problem, KILN__WISDOM_REASON, "%s %s", kiln__wisdom_fields[i].name, reason);
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
    return (a->log2_n > b->log2_n) - (a->log2_n < b->log2_n);
}

/* One block: the record and behind it its texts, those of the fields and last the extra one. */
static kiln__wisdom_entry *copy(const kiln__wisdom_entry *record)
{
    size_t size = sizeof(*record) + strlen(record->extra) + 1;
    for (size_t i = 0; i < kiln__wisdom_field_count; i++)
        if (kiln__wisdom_fields[i].kind == KILN__WISDOM_TEXT)
            size += strlen(text_of(record, &kiln__wisdom_fields[i])) + 1;
    kiln__wisdom_entry *out = kiln__alloc(size);
    if (out == NULL)
        return NULL;
    *out = *record;
    char *at = (char *)(out + 1);
    for (size_t i = 0; i < kiln__wisdom_field_count; i++) {
        const kiln__wisdom_field *field = &kiln__wisdom_fields[i];
        if (field->kind != KILN__WISDOM_TEXT)
            continue;
        *(const char **)((char *)out + field->offset) = at;
        at = stpcpy(at, text_of(record, field)) + 1;
    }
    out->extra = at;
    stpcpy(at, record->extra);
    return out;
}

bool kiln__wisdom_record_equal(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b)
{
    for (size_t i = 0; i < kiln__wisdom_field_count; i++) {
        const kiln__wisdom_field *field = &kiln__wisdom_fields[i];
        if (field->kind == KILN__WISDOM_TEXT    ? strcmp(text_of(a, field), text_of(b, field)) != 0
            : field->kind == KILN__WISDOM_WHOLE ? whole_of(a, field) != whole_of(b, field)
                                                : real_of(a, field) != real_of(b, field))
            return false;
    }
    return strcmp(a->extra, b->extra) == 0;
}

/* Times of two runs do not compare, for clocks and neighbours differ; how many variants were tried does. */
static bool is_better_founded(const kiln__wisdom_entry *old, const kiln__wisdom_entry *fresh)
{
    return strcmp(old->digest, fresh->digest) == 0 && strcmp(old->toolchain, fresh->toolchain) == 0 &&
           old->variants > fresh->variants;
}

static size_t place_of(const kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kiln__wisdom_record_compare(set->records[middle], record) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool kiln__wisdom_set_has(const kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    size_t place = place_of(set, record);
    return place < set->count && kiln__wisdom_record_compare(set->records[place], record) == 0;
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

static kiln__wisdom_fate replace(kiln__wisdom_entry **slot, const kiln__wisdom_entry *record)
{
    if (kiln__wisdom_record_equal(*slot, record))
        return KILN__WISDOM_EQUAL;
    if (is_better_founded(*slot, record))
        return KILN__WISDOM_OLDER_KEPT;
    kiln__wisdom_entry *fresh = copy(record);
    if (fresh == NULL)
        return KILN__WISDOM_NO_MEMORY;
    kiln__free(*slot);
    *slot = fresh;
    return KILN__WISDOM_REPLACED;
}

static kiln__wisdom_fate insert(kiln__wisdom_set *set, const kiln__wisdom_entry *record, size_t limit)
{
    size_t place = place_of(set, record);
    if (kiln__wisdom_set_has(set, record))
        return replace(&set->records[place], record);
    if (set->count >= limit)
        return KILN__WISDOM_FULL;
    kiln__wisdom_entry *fresh = make_room(set) ? copy(record) : NULL;
    if (fresh == NULL)
        return KILN__WISDOM_NO_MEMORY;
    memmove(set->records + place + 1, set->records + place, (set->count - place) * sizeof(*set->records));
    set->records[place] = fresh;
    set->count++;
    return KILN__WISDOM_ADDED;
}

kiln__wisdom_fate kiln__wisdom_set_add(kiln__wisdom_set *set, const kiln__wisdom_entry *record)
{
    return insert(set, record, KILN__WISDOM_RECORDS_MAX);
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
        good = insert(set, more->records[i], SIZE_MAX) != KILN__WISDOM_NO_MEMORY;
    return good;
}

void kiln__wisdom_set_fini(kiln__wisdom_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        kiln__free(set->records[i]);
    kiln__free(set->records);
    *set = (kiln__wisdom_set){ 0 };
}
