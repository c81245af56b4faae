#include "run/runresult.h"

#include <inttypes.h>
#include <stdlib.h>

#include "text/format.h"
#include "text/jsonout.h"
#include "warm/counters.h"

static int write_file(const run_result *result, struct output *output)
{
    char *header = NULL;
    size_t length = npy_header(&header, result->array);
    int status = output_write(output, header, length);
    free(header);
    if (!status)
        status = output_write(output, result->data, result->array->bytes);
    return status ? status : output_commit(output);
}

static void print_json(const run_result *result)
{
    json_t *object = json_new();
    json_put_text(object, "device", result->kernel->device);
    json_put_text(object, "spec", result->kernel->spec);
    json_put_text(object, "source", result->kernel->origin_name);
    json_put_real(object, "compile_ms", result->kernel->compile_ms);
    json_put_real(object, "time_ms", result->ms);
    json_put_real(object, "gbps", gigabytes_per_second(result->bytes, result->ms));
    json_put_count(object, "elements", result->array->elements);
    json_put_count(object, "bytes", result->bytes);
    if (result->verified)
        json_put_bool(object, "verified", !result->verified->differs);
    else
        json_put_null(object, "verified");
    if (result->verified && result->verified->found.bound >= 0)
        json_put_real(object, "reference_ulps", result->verified->found.worst);
    if (result->wishes.stats)
        json_put(object, "stats", counters_json(result->service));
    json_print(object);
}

static void print_text(const run_result *result, FILE *stream)
{
    char text[FORMAT_ROOM];
    fprintf(stream, "device    %s (%s)\n", result->kernel->device, result->device->model);
    fprintf(stream, "spec      %s\n", result->kernel->spec);
    if (result->kernel->origin == KILN_ORIGIN_COMPILED)
        fprintf(stream, "kernel    compiled in %s\n", format_ms(text, result->kernel->compile_ms));
    else
        fprintf(stream, "kernel    %s\n", result->kernel->origin_name);
    if (result->sizes)
        fprintf(stream, "sizes     %s\n", result->sizes);
    fprintf(stream, "time      %s%s, %.1f GB/s, %" PRIu64 " elements\n", format_ms(text, result->ms),
            result->wishes.time ? " (median)" : "", gigabytes_per_second(result->bytes, result->ms),
            result->array->elements);
    const kiln_verification *found = result->verified ? &result->verified->found : NULL;
    if (found)
        fprintf(stream, "verified  %" PRIu64 " elements equal to %s, bit for bit\n", found->compared, found->against);
    if (found && found->bound >= 0)
        fprintf(stream, "reference at most %.3g ulp away, %.3g are allowed\n", found->worst, found->bound);
    if (result->wishes.stats)
        counters_print(result->service, stream);
}

int run_result_give(const run_result *result, struct output *output, int status)
{
    FILE *stream = !status && output_is_stdout(output) ? stderr : stdout;
    if (!status)
        status = write_file(result, output);
    if (result->wishes.json && stream == stdout && (!status || (result->verified && result->verified->differs)))
        print_json(result);
    else if (!status)
        print_text(result, stream);
    return status;
}
