/* kiln status: the figures of the daemon, as text, JSON or for Prometheus. */
#include <inttypes.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "text/jsonout.h"
#include "text/table.h"

typedef struct status_args {
    common_args common;
    bool prometheus;
} status_args;

static const struct usage usage = {
    "kiln status [options]",
    "Shows what the daemon has done: requests and their times by the place where the entry was, compiles, refusals, "
    "the\n"
    "most requested and the slowest kernels, the time that hits saved. Status 1 if no daemon answers.",
    NULL,
};

static const char *const places[] = { "memory", "disk", "pack", "shared", "remote", "compiled" };

static uint64_t count_of(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* ---- Prometheus's text format */

static void print_metric(const char *name, const char *type, const char *help, double value)
{
    printf("# HELP kiln_%s %s\n# TYPE kiln_%s %s\nkiln_%s %.17g\n", name, help, name, type, name, value);
}

static void print_refusals(const json_t *figures)
{
    const char *reason;
    json_t *count;
    printf("# HELP kiln_refused_total Connections that were closed.\n# TYPE kiln_refused_total counter\n");
    json_object_foreach(json_object_get(figures, "refused"), reason, count)
        printf("kiln_refused_total{reason=\"%s\"} %" JSON_INTEGER_FORMAT "\n", reason, json_integer_value(count));
}

static void print_histograms(const json_t *figures)
{
    printf("# HELP kiln_found_seconds Time from a request to its answer, by the place of the entry.\n"
           "# TYPE kiln_found_seconds histogram\n");
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const json_t *of = json_object_get(json_object_get(figures, "found"), places[i]);
        json_t *bucket;
        size_t k;
        json_array_foreach(json_object_get(of, "at_most"), k, bucket)
            printf("kiln_found_seconds_bucket{place=\"%s\",le=\"%.9g\"} %" PRIu64 "\n", places[i],
                   number_of(bucket, "us") / 1e6, count_of(bucket, "count"));
        printf("kiln_found_seconds_bucket{place=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
               "kiln_found_seconds_sum{place=\"%s\"} %.9g\nkiln_found_seconds_count{place=\"%s\"} %" PRIu64 "\n",
               places[i], count_of(of, "count"), places[i], number_of(of, "seconds"), places[i], count_of(of, "count"));
    }
}

static void print_prometheus(const json_t *figures)
{
    static const struct {
        const char *name, *member, *type, *help;
    } metrics[] = {
        { "uptime_seconds", "uptime_s", "gauge", "Time since the daemon began to listen." },
        { "resident_bytes", "resident_bytes", "gauge", "Resident memory of the daemon." },
        { "clients", "clients", "gauge", "Hosts that are connected." },
        { "running", "running", "gauge", "Requests that are worked on." },
        { "connections_total", "connections", "counter", "Hosts that connected." },
        { "requests_total", "requests", "counter", "Requests." },
        { "absent_total", "absent", "counter", "Questions for entries that were nowhere." },
        { "failed_total", "failed", "counter", "Kernels that did not compile." },
        { "saved_seconds_total", "saved_s", "counter", "Compile time that hits saved." },
        { "evictions_total", "evictions", "counter", "Entries removed to keep the store within its caps." },
        { "worker_crashes_total", "worker_crashes", "counter", "Compile workers that crashed." },
        { "reloads_total", "reloads", "counter", "Reloads." },
    };
    for (size_t i = 0; i < COUNT_OF(metrics); i++)
        print_metric(metrics[i].name, metrics[i].type, metrics[i].help, number_of(figures, metrics[i].member));
    print_refusals(figures);
    print_histograms(figures);
}

/* ---- Text */

/* The bound of the bucket in which a share of the requests lies, in microseconds. */
static uint64_t quantile(const json_t *of, double share)
{
    const json_t *buckets = json_object_get(of, "at_most");
    const double least = share * (double)count_of(of, "count");
    for (size_t k = 0; k < json_array_size(buckets); k++) {
        const json_t *bucket = json_array_get(buckets, k);
        if ((double)count_of(bucket, "count") >= least)
            return count_of(bucket, "us");
    }
    return UINT64_MAX;
}

static const char *quantile_text(const json_t *of, double share)
{
    const uint64_t us = quantile(of, share);
    return us == UINT64_MAX ? "more"
           : us >= 10000    ? need_format("%" PRIu64 " ms", us / 1000)
                            : need_format("%" PRIu64 " us", us);
}

static void print_places(const json_t *figures)
{
    struct table *table = table_new("found in|>requests|>mean us|>half within|>99% within");
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const json_t *of = json_object_get(json_object_get(figures, "found"), places[i]);
        const uint64_t count = count_of(of, "count");
        if (count == 0)
            continue;
        const char *const cells[] = { places[i], need_format("%" PRIu64, count),
                                      need_format("%.1f", number_of(of, "seconds") * 1e6 / (double)count),
                                      quantile_text(of, 0.5), quantile_text(of, 0.99) };
        table_row(table, cells);
    }
    table_print(table, stdout);
}

static void print_specs(const json_t *figures, const char *name, const char *title)
{
    const json_t *list = json_object_get(figures, name), *spec;
    struct table *table = table_new(">requests|>compile ms|spec");
    size_t k;
    if (json_array_size(list) == 0)
        return;
    printf("\n%s\n", title);
    json_array_foreach(list, k, spec)
    {
        const double ms = number_of(spec, "compile_ms");
        const char *const cells[] = { need_format("%" PRIu64, count_of(spec, "requests")),
                                      ms > 0 ? need_format("%.1f", ms) : "-", text_of(spec, "spec") };
        table_row(table, cells);
    }
    table_print(table, stdout);
}

static void print_text(const json_t *figures)
{
    const json_t *refused = json_object_get(figures, "refused");
    printf("daemon %s, process %" PRIu64 ", up %.0f s, %.1f MiB\nsocket %s\nstore %s\n", text_of(figures, "version"),
           count_of(figures, "pid"), number_of(figures, "uptime_s"), number_of(figures, "resident_bytes") / 1048576,
           text_of(figures, "socket"), text_of(figures, "directory"));
    printf("%" PRIu64 " hosts, %" PRIu64 " requests running; %" PRIu64 " connections, %" PRIu64 " requests, %" PRIu64
           " absent, %" PRIu64 " failed\n",
           count_of(figures, "clients"), count_of(figures, "running"), count_of(figures, "connections"),
           count_of(figures, "requests"), count_of(figures, "absent"), count_of(figures, "failed"));
    printf("refused: %" PRIu64 " of other users, %" PRIu64 " that were no request, %" PRIu64 " too slow, %" PRIu64
           " for want of room\nhits saved %.1f s of compiling\n\n",
           count_of(refused, "users"), count_of(refused, "frames"), count_of(refused, "slow"),
           count_of(refused, "crowd"), number_of(figures, "saved_s"));
    print_places(figures);
    print_specs(figures, "most_requested", "most requested");
    print_specs(figures, "slowest", "slowest to compile");
}

int command_status(int argc, char **argv)
{
    status_args args = { .prometheus = false };
    const option_row rows[] = {
        { "socket", 0, OPTION_TEXT, "PATH", "ask the daemon at PATH", &args.common.socket },
        { "prometheus", 0, OPTION_FLAG, NULL, "print the text format of Prometheus", &args.prometheus },
    };
    char *text = NULL;
    kiln_report report = KILN_INIT(kiln_report);
    options_only(&usage, OPTION_ROWS(rows), &args.common, NULL, argc, argv);
    const kiln_options options = session_options(&args.common);
    const kiln_status status = kiln_daemon_figures(&text, &options, &report);
    if (status)
        return fail_report(status, &report, NULL);
    json_t *figures = json_loads(text, 0, NULL);
    kiln_text_free(text);
    if (!figures)
        return fail(STATUS_FAILED, "the daemon's figures cannot be read");
    if (args.common.json) {
        json_print(figures);
        return STATUS_DONE;
    }
    if (args.prometheus)
        print_prometheus(figures);
    else
        print_text(figures);
    json_decref(figures);
    return STATUS_DONE;
}
