/* A host with a libuv loop that must not stall: kernels compile behind it while a timer ticks every millisecond.
 *
 *     cc uvhost.c $(pkg-config --cflags --libs kiln libuv) -o uvhost && ./uvhost 500
 *
 * The argument is the number of kernels, 4 by default. No store keeps them, so every run compiles. The program prints
 * the gaps between ticks, first without compiles, then with compiles. */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { TICK_MS = 1, GAPS_MAX = 1 << 20 };

static kiln_report report = KILN_INIT(kiln_report);
static uint64_t gaps[GAPS_MAX]; /* nanoseconds between ticks */
static size_t gap_count;
static uint64_t last_tick, quiet_until;
static int wanted, done, failed;
static uv_timer_t timer;

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

static void on_tick(uv_timer_t *handle)
{
    uint64_t now = uv_hrtime();
    if (gap_count < GAPS_MAX)
        gaps[gap_count++] = now - last_tick;
    last_tick = now;
    if (done == wanted && now >= quiet_until)
        uv_timer_stop(handle);
}

/* Runs on the loop's thread and owns the program. A real host would keep its kernel. */
static void on_program(void *data, kiln_status status, kiln_program *program, const kiln_report *why)
{
    (void)data;
    done++;
    if (status != KILN_OK) {
        failed++;
        fprintf(stderr, "%s: %s\n", kiln_status_text(status), why->message);
    }
    kiln_program_release(program);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The gap that this part of all gaps does not exceed, in milliseconds. */
static double quantile(double part)
{
    size_t at = (size_t)(part * (double)gap_count);
    return (double)gaps[at < gap_count ? at : gap_count - 1] / 1e6;
}

/* Ticks until all kernels are there; returns the time in nanoseconds. */
static uint64_t tick(uv_loop_t *loop, uint64_t quiet_ns, const char *what)
{
    uint64_t begin = last_tick = uv_hrtime();
    gap_count = 0;
    quiet_until = begin + quiet_ns;
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    uv_run(loop, UV_RUN_DEFAULT);
    uint64_t took = uv_hrtime() - begin;
    qsort(gaps, gap_count, sizeof(gaps[0]), compare);
    printf("%-22s %8.0f ms %7zu ticks   gap p50 %.2f  p99 %.2f  p99.9 %.2f  most %.2f ms\n", what, (double)took / 1e6,
           gap_count, quantile(0.5), quantile(0.99), quantile(0.999), quantile(1));
    return took;
}

static void ask(kiln_service *service, kiln_queue *queue, int count)
{
    wanted = count;
    for (int i = 0; i < count; i++) {
        char text[64];
        kiln_spec *spec;
        kiln_request request = KILN_INIT(kiln_request);
        snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32", i + 2);
        must(kiln_spec_parse(&spec, service, text, &report), "spec");
        request.spec = spec;
        must(kiln_submit(NULL, queue, &request, NULL, on_program, NULL, &report), "submit");
        kiln_spec_free(spec); /* it was copied */
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 4;
    if (count < 1 || argc > 2) {
        fprintf(stderr, "usage: uvhost [KERNELS]\n");
        return 2;
    }
    kiln_options options = KILN_INIT(kiln_options);
    options.cache_dir = ""; /* only for this demonstration */
    kiln_service *service;
    kiln_queue *queue;
    uv_loop_t *loop = uv_default_loop();
    uv_timer_init(loop, &timer);
    must(kiln_open(&service, &options, &report), "open");
    must(kiln_queue_open(&queue, service, &report), "queue");
    must(kiln_queue_attach_uv(queue, loop, &report), "loop");

    /* A baseline, about as long as the compiles. */
    tick(loop, (uint64_t)count * 20000000, "no compiles");
    ask(service, queue, count);
    char what[40];
    snprintf(what, sizeof(what), "%d compiles", count);
    tick(loop, 0, what);

    kiln_queue_close(queue, NULL, NULL);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    kiln_close(service);
    return uv_loop_close(loop) == 0 && failed == 0 ? 0 : 1;
}
