#include "bench/benchreport.h"

#include <stdlib.h>

#include "text/csv.h"
#include "text/format.h"
#include "text/spectext.h"

/* The faster one of the copies. */
static const kiln_timing *ceiling_of(const struct benchset *set, size_t group)
{
    const bench_ceiling *ceiling = &set->ceilings[group];
    return ceiling->memcpy.median_ms <= ceiling->kernel.median_ms ? &ceiling->memcpy : &ceiling->kernel;
}

static kiln_device_info device_of(const bench_case *one)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    if (kiln_device_get_info(one->device, &info) != KILN_OK)
        info.model = info.target = "?";
    return info;
}

static void put_fields(struct csv *csv, const char *spec, const char *const *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *value = NULL;
        spectext_field(&value, spec, fields[i]);
        csv_text(csv, value);
        free(value);
    }
}

static void put_case(struct csv *csv, const struct benchset *set, const bench_case *one)
{
    kiln_device_info info = device_of(one);
    csv_text(csv, one->info.device);
    csv_text(csv, info.model);
    put_fields(csv, one->info.spec, (const char *const[]){ "target", "op", "dtype" }, 3);
    csv_count(csv, one->elements);
    csv_count(csv, one->bytes);
    put_fields(csv, one->info.spec, (const char *const[]){ "block", "elems", "vector" }, 3);
    csv_text(csv, one->info.spec);
    csv_real(csv, one->timing.median_ms);
    csv_real(csv, one->timing.min_ms);
    csv_real(csv, one->timing.max_ms);
    csv_real(csv, gigabytes_per_second(one->bytes, one->timing.median_ms));
    csv_real(csv, one->ratio);
    csv_real(csv, gigabytes_per_second(one->bytes, ceiling_of(set, one->group)->median_ms));
    csv_text(csv, set->verify ? "yes" : "");
    csv_text(csv, one->info.origin_name);
    csv_real(csv, one->info.compile_ms);
    csv_real(csv, one->first_get_ms);
    csv_real(csv, one->again_us);
    csv_real(csv, one->low_ms);
    csv_real(csv, one->high_ms);
    csv_real(csv, gigabytes_per_second(one->bytes, set->ceilings[one->group].memcpy.median_ms));
    csv_real(csv, gigabytes_per_second(one->bytes, set->ceilings[one->group].kernel.median_ms));
    csv_end_row(csv);
}

void benchreport_csv(FILE *stream, const struct benchset *set)
{
    struct csv csv;
    csv_begin(&csv, stream);
    csv_titles(
        &csv,
        "device|model|target|op|dtype|elements|bytes|block|elems|vector|spec|time_ms|min_ms|max_ms|gbps|"
        "ceiling_ratio|ceiling_gbps|verified|source|compile_ms|first_get_ms|get_us|low_ms|high_ms|memory_copy_gbps|"
        "copy_kernel_gbps");
    for (size_t i = 0; i < set->count; i++)
        put_case(&csv, set, &set->cases[i]);
}
