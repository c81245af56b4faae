#include "benchreport.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "format.h"
#include "plot/lineplot.h"
#include "spectext.h"

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

/* ---- CSV */

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
    csv_end_row(csv);
}

void benchreport_csv(FILE *stream, const struct benchset *set)
{
    struct csv csv;
    csv_begin(&csv, stream);
    csv_titles(&csv, "device|model|target|op|dtype|elements|bytes|block|elems|vector|spec|time_ms|min_ms|max_ms|gbps|"
                     "ceiling_ratio|ceiling_gbps|verified|source|compile_ms|first_get_ms|get_us");
    for (size_t i = 0; i < set->count; i++)
        put_case(&csv, set, &set->cases[i]);
}

/* ---- The lines */

static lineplot_point point_of(const bench_case *one)
{
    return (lineplot_point){ .size = (double)one->elements,
                             .value = gigabytes_per_second(one->bytes, one->timing.median_ms),
                             .low = gigabytes_per_second(one->bytes, one->high_ms),
                             .high = gigabytes_per_second(one->bytes, one->low_ms) };
}

static size_t line_count(const struct benchset *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->cases[i].line >= count)
            count = set->cases[i].line + 1;
    return count;
}

/* The first case of a line. */
static const bench_case *case_of(const struct benchset *set, size_t line)
{
    size_t i = 0;
    while (set->cases[i].line != line)
        i++;
    return &set->cases[i];
}

static bool is_varying(const struct benchset *set, const char *field)
{
    char *first = NULL;
    bool differs = false;
    spectext_field(&first, set->cases[0].info.spec, field);
    for (size_t i = 1; i < set->count && !differs; i++) {
        char *value = NULL;
        spectext_field(&value, set->cases[i].info.spec, field);
        differs = (value == NULL) != (first == NULL) || (value && strcmp(value, first) != 0);
        free(value);
    }
    free(first);
    return differs;
}

/* Adds a word and frees it. */
static void append(char **text, char *word)
{
    char *longer = need_format("%s%s%s", *text, **text ? " " : "", word ? word : "");
    free(*text);
    free(word);
    *text = longer;
}

static void append_field(char **text, const char *spec, const char *field)
{
    char *value = NULL;
    spectext_field(&value, spec, field);
    append(text, value);
}

/* "hardsigmoid f32 block=128": what the lines differ in, after op and dtype. */
static char *line_name(const struct benchset *set, const char *spec)
{
    char *name = need_copy(""), *geometry = spectext_geometry(spec);
    append_field(&name, spec, "op");
    append_field(&name, spec, "dtype");
    if (is_varying(set, "target"))
        append_field(&name, spec, "target");
    for (char *at = geometry, *word; (word = strsep(&at, " "));) {
        char *field = need_format("%.*s", (int)strcspn(word, "="), word);
        if (*field && is_varying(set, field))
            append(&name, need_copy(word));
        free(field);
    }
    free(geometry);
    return name;
}

static lineplot_series series_of(const struct benchset *set, size_t line)
{
    lineplot_point *points = need_array(NULL, set->count, sizeof(*points));
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->cases[i].line == line)
            points[count++] = point_of(&set->cases[i]);
    return (lineplot_series){ line_name(set, case_of(set, line)->info.spec), points, count, false };
}

/* Whether copies of the same traffic are the ceilings of both. */
static bool same_traffic(const bench_case *a, const bench_case *b)
{
    return a->device == b->device && a->type->size == b->type->size && a->inputs == b->inputs;
}

static bool is_first_group(const struct benchset *set, size_t group)
{
    for (size_t i = 0; i < group; i++)
        if (same_traffic(set->ceilings[i].example, set->ceilings[group].example))
            return false;
    return true;
}

/* Groups of equal traffic and size, such as those of f16 and bf16, have one point, the faster. */
static size_t add_ceiling_point(lineplot_point *points, size_t count, const lineplot_point *point)
{
    for (size_t i = 0; i < count; i++) {
        if (points[i].size != point->size)
            continue;
        if (point->value > points[i].value)
            points[i] = *point;
        return count;
    }
    points[count] = *point;
    return count + 1;
}

static lineplot_series ceiling_series(const struct benchset *set, size_t group, bool alone)
{
    lineplot_point *points = need_array(NULL, set->groups, sizeof(*points));
    const bench_case *example = set->ceilings[group].example;
    size_t count = 0;
    for (size_t i = 0; i < set->groups; i++) {
        const bench_case *other = set->ceilings[i].example;
        if (!same_traffic(example, other))
            continue;
        double speed = gigabytes_per_second(other->bytes, ceiling_of(set, i)->median_ms);
        lineplot_point point = { .size = (double)other->elements, .value = speed, .low = NAN, .high = NAN };
        count = add_ceiling_point(points, count, &point);
    }
    char *name = alone ? need_copy("plain copy")
                       : need_format("plain copy, %u B an element", example->type->size * (example->inputs + 1));
    return (lineplot_series){ name, points, count, true };
}

/* ---- The picture */

static double bytes_each(const struct benchset *set)
{
    double each = 0;
    for (size_t i = 0; i < set->count; i++) {
        double bytes = (double)set->cases[i].bytes / (double)set->cases[i].elements;
        if (i > 0 && bytes != each)
            return 0;
        each = bytes;
    }
    return each;
}

static size_t add_ceilings(const struct benchset *set, lineplot_series *out)
{
    size_t kinds = 0, count = 0;
    for (size_t i = 0; i < set->groups; i++)
        kinds += is_first_group(set, i);
    for (size_t i = 0; i < set->groups; i++)
        if (is_first_group(set, i))
            out[count++] = ceiling_series(set, i, kinds == 1);
    return count;
}

static void draw(FILE *stream, const struct benchset *set, const lineplot_series *series, size_t count)
{
    char *op = NULL;
    kiln_device_info info = device_of(&set->cases[0]);
    char *device = spectext_device(info.model, info.name, info.target);
    char *method = need_format("medians of %u rounds, the bars reach over the middle half of them; %s", set->rounds,
                               set->verify ? "every result checked bit for bit" : "results not checked");
    const char *const lines[] = { device, method };
    spectext_field(&op, set->cases[0].info.spec, "op");
    char *title = is_varying(set, "op") ? need_copy("Speed by size") : need_format("%s: speed by size", op);
    double each = bytes_each(set);
    lineplot_draw(stream, &(lineplot){ .heading = { title, lines, 2 },
                                       .x_name = each > 0 ? "elements, and the bytes read and written" : "elements",
                                       .bytes_each = each,
                                       .y_name = "GB/s",
                                       .series = series,
                                       .series_count = count });
    free(title);
    free(op);
    free(device);
    free(method);
}

void benchreport_plot(FILE *stream, const struct benchset *set)
{
    if (set->count == 0) {
        lineplot_draw(stream,
                      &(lineplot){ .heading = { "Speed by size", NULL, 0 }, .x_name = "elements", .y_name = "GB/s" });
        return;
    }
    size_t count = 0;
    lineplot_series *series = need_array(NULL, line_count(set) + set->groups, sizeof(*series));
    for (size_t line = 0; line < line_count(set); line++)
        series[count++] = series_of(set, line);
    count += add_ceilings(set, series + count);
    draw(stream, set, series, count);
    for (size_t i = 0; i < count; i++) {
        free((char *)series[i].name);
        free((lineplot_point *)series[i].points);
    }
    free(series);
}
