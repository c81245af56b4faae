#include "tune/variantcsv.h"

#include <stdlib.h>

#include "text/csv.h"
#include "text/spectext.h"

/* A field of the spec, empty if it has none. */
static void put_field(struct csv *csv, const char *spec, const char *field)
{
    char *value = NULL;
    spectext_field(&value, spec, field);
    csv_text(csv, value);
    free(value);
}

/* Zero stands for what was not measured. */
static void put_measured(struct csv *csv, double value)
{
    if (value > 0)
        csv_real(csv, value);
    else
        csv_text(csv, NULL);
}

static void put_per_thread(struct csv *csv, int count)
{
    if (count >= 0)
        csv_count(csv, (uint64_t)count);
    else
        csv_text(csv, NULL);
}

/* The columns that rows of variants and of impossible combinations have in common. */
static void put_kind(struct csv *csv, const variant_group *group, const char *spec)
{
    static const char *const fields[] = { "block", "elems", "vector" };
    csv_text(csv, group->device);
    csv_text(csv, group->model);
    csv_text(csv, group->target);
    csv_text(csv, group->op);
    csv_text(csv, group->dtype);
    csv_count(csv, group->elements);
    csv_count(csv, group->bytes);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        put_field(csv, spec, fields[i]);
    csv_text(csv, spec);
}

static void put_row(struct csv *csv, const variant_group *group, const variant_row *one)
{
    put_kind(csv, group, one->spec);
    csv_text(csv, one->verdict);
    csv_text(csv, one->problem);
    put_measured(csv, one->ms);
    put_measured(csv, one->gbps);
    put_measured(csv, one->ratio);
    put_measured(csv, one->low);
    put_measured(csv, one->high);
    put_measured(csv, one->ceiling_ratio);
    csv_count(csv, one->samples);
    put_per_thread(csv, one->registers);
    put_per_thread(csv, one->local_bytes);
    put_measured(csv, group->ceiling_gbps);
    csv_end_row(csv);
}

static void put_gap(struct csv *csv, const variant_group *group, const variant_gap *gap)
{
    enum { UNMEASURED = 6 }; /* the columns from time_ms to ceiling_ratio */
    put_kind(csv, group, gap->spec);
    csv_text(csv, "impossible");
    csv_text(csv, gap->problem);
    for (int i = 0; i < UNMEASURED; i++)
        csv_text(csv, NULL);
    csv_count(csv, 0);
    put_per_thread(csv, -1);
    put_per_thread(csv, -1);
    put_measured(csv, group->ceiling_gbps);
    csv_end_row(csv);
}

void variantcsv_write(FILE *stream, const variant_group *groups, size_t count)
{
    struct csv csv;
    csv_begin(&csv, stream);
    csv_titles(&csv, "device|model|target|op|dtype|elements|bytes|block|elems|vector|spec|verdict|problem|time_ms|gbps|"
                     "ratio|ratio_low|ratio_high|ceiling_ratio|samples|registers|local_bytes|ceiling_gbps");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < groups[i].count; k++)
            put_row(&csv, &groups[i], &groups[i].variants[k]);
        for (size_t k = 0; k < groups[i].gap_count; k++)
            put_gap(&csv, &groups[i], &groups[i].gaps[k]);
    }
}
