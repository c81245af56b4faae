/* The table of backends, and the names of targets. */
#include "spec/target.h"
#include <string.h>

static const kiln__backend_facts rows[KILN__BACKEND_END] = {
#define ROW(id, name, prefix, numbered, section, twin, words) { #name, prefix, numbered, section, twin, words },
    KILN__BACKENDS(ROW)
#undef ROW
};

const kiln__target kiln__reference_target = { .name = "cpu", .backend = KILN__BACKEND_CPU };

const kiln__backend_facts *kiln__backend_facts_of(kiln__backend_id backend)
{
    return &rows[backend];
}

/* Two or three digits, the first not 0, and a or f. */
static bool parse_number(const char *text, size_t length, kiln__target *out)
{
    size_t digits = 0;
    for (; digits < length && digits < 3 && text[digits] >= '0' && text[digits] <= '9'; digits++)
        out->sm = out->sm * 10 + (text[digits] - '0');
    if (digits < 2 || text[0] == '0')
        return false;
    if (digits < length && (text[digits] == 'a' || text[digits] == 'f'))
        out->suffix = text[digits++];
    return digits == length;
}

bool kiln__target_parse(const char *text, size_t length, kiln__target *out)
{
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        kiln__target target = { .backend = (kiln__backend_id)i };
        size_t prefix = strlen(rows[i].prefix);
        if (length < prefix || memcmp(text, rows[i].prefix, prefix) != 0)
            continue;
        if (rows[i].numbered ? !parse_number(text + prefix, length - prefix, &target) : length > prefix)
            return false;
        memcpy(target.name, text, length);
        *out = target;
        return true;
    }
    return false;
}

const char *kiln__target_device(const kiln__target *target)
{
    return rows[target->backend].numbered ? NULL : rows[target->backend].name;
}

int32_t kiln__target_shared_limit(const kiln__target *target)
{
    static const struct {
        int sm, kib;
    } limits[] = { { 75, 64 }, { 80, 163 }, { 86, 99 }, { 87, 163 }, { 88, 99 }, { 89, 99 }, { 120, 99 }, { 121, 99 } };
    enum { MOST_KIB = 227 };
    if (!kiln__target_facts(target)->numbered)
        return INT32_MAX;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].sm == target->sm)
            return limits[i].kib << 10;
    return MOST_KIB << 10;
}

int32_t kiln__target_cores(const kiln__target *target)
{
    static const struct {
        int sm, cores;
    } known[] = {
        { 75, 72 }, { 80, 108 }, { 86, 84 }, { 87, 16 }, { 89, 142 }, { 100, 148 }, { 103, 148 }, { 120, 188 }
    };
    enum { USUAL = 132 /* of sm_90 */ };
    if (!kiln__target_facts(target)->numbered)
        return 1;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].sm == target->sm)
            return known[i].cores;
    return USUAL;
}
