#include "tune/sweepset.h"

#include <stdlib.h>
#include <string.h>

#include "text/spectext.h"

typedef struct adder {
    struct sweepset *set;
    struct session *session;
    kiln_status status;
} adder;

/* The fields of a canonical text that are not the geometry. */
static char *kind_of(const char *spec)
{
    static const char *const fields[] = { "op", "template", "dtype", "target" };
    char *name = need_copy("");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char *value = NULL, *longer;
        if (!spectext_field(&value, spec, fields[i]))
            continue;
        longer = need_format("%s%s%s=%s", name, *name ? " " : "", fields[i], value);
        free(value);
        free(name);
        name = longer;
    }
    return name;
}

static sweep_kind *need_kind(struct sweepset *set, const char *spec)
{
    char *name = kind_of(spec);
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->kinds[i].name, name) != 0)
            continue;
        free(name);
        return &set->kinds[i];
    }
    set->kinds = need_array(set->kinds, set->count + 1, sizeof(*set->kinds));
    set->kinds[set->count] = (sweep_kind){ .name = name };
    return &set->kinds[set->count++];
}

static size_t find_spec(const sweep_kind *kind, const char *spec)
{
    size_t i = 0;
    while (i < kind->count && strcmp(kind->specs[i], spec) != 0)
        i++;
    return i;
}

static void add_gap(sweep_kind *kind, const kiln_variant *variant)
{
    for (size_t i = 0; i < kind->gap_count; i++)
        if (strcmp(kind->gaps[i].spec, variant->spec) == 0)
            return;
    kind->gaps = need_array(kind->gaps, kind->gap_count + 1, sizeof(*kind->gaps));
    kind->gaps[kind->gap_count++] = (sweep_gap){ need_copy(variant->spec), need_copy(variant->problem) };
}

static int add_variant(void *data, const kiln_variant *variant)
{
    sweep_kind *kind = need_kind(((adder *)data)->set, variant->spec);
    if (*variant->problem) {
        add_gap(kind, variant);
    } else if (find_spec(kind, variant->spec) == kind->count) {
        kind->specs = need_array(kind->specs, kind->count + 1, sizeof(*kind->specs));
        kind->specs[kind->count++] = need_copy(variant->spec);
    }
    return 0;
}

static int add_spec(void *data, const kiln_spec *spec)
{
    adder *adding = data;
    adding->status = kiln_variants(adding->session->service, spec, add_variant, adding, &adding->session->report);
    return adding->status != KILN_OK;
}

int sweepset_add(struct sweepset *set, struct session *session, const char *line)
{
    adder adding = { set, session, KILN_OK };
    kiln_status status = kiln_spec_expand(session->service, line, add_spec, &adding, &session->report);
    if (!status)
        status = adding.status;
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

/* The first variant that is visited is the default. */
static int put_first(void *data, const kiln_variant *variant)
{
    sweep_kind *kind = data;
    size_t index = find_spec(kind, variant->spec);
    if (index < kind->count) {
        char *found = kind->specs[index];
        memmove(kind->specs + 1, kind->specs, index * sizeof(*kind->specs));
        kind->specs[0] = found;
    }
    return 1;
}

int sweepset_order(struct sweepset *set, struct session *session)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < set->count && !status; i++) {
        kiln_spec *spec = NULL;
        status = kiln_spec_parse(&spec, session->service, set->kinds[i].name, &session->report);
        if (!status)
            status = kiln_variants(session->service, spec, put_first, &set->kinds[i], &session->report);
        kiln_spec_free(spec);
    }
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

kiln_status sweepset_measure(kiln_tuning **out, struct session *session, char *const *texts, size_t count,
                             const kiln_sweep_options *options)
{
    kiln_spec **specs = need_array(NULL, count, sizeof(*specs));
    kiln_status status = KILN_OK;
    size_t read = 0;
    *out = NULL;
    while (read < count && !status) {
        specs[read] = NULL;
        status = kiln_spec_parse(&specs[read], session->service, texts[read], &session->report);
        read++;
    }
    if (!status)
        status = kiln_sweep(out, session->service, (const kiln_spec *const *)specs, count, options, &session->report);
    for (size_t i = 0; i < read; i++)
        kiln_spec_free(specs[i]);
    free(specs);
    return status;
}

static void free_kind(sweep_kind *kind)
{
    for (size_t i = 0; i < kind->count; i++)
        free(kind->specs[i]);
    for (size_t i = 0; i < kind->gap_count; i++) {
        free(kind->gaps[i].spec);
        free(kind->gaps[i].problem);
    }
    free(kind->specs);
    free(kind->gaps);
    free(kind->name);
}

void sweepset_free(struct sweepset *set)
{
    for (size_t i = 0; i < set->count; i++)
        free_kind(&set->kinds[i]);
    free(set->kinds);
    *set = (struct sweepset){ .kinds = NULL };
}
