#include "cli/progress.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/format.h"

static atomic_bool on_screen;

void progress_hide(void)
{
    if (atomic_exchange(&on_screen, false))
        fputs("\r\033[K", stderr);
}

void progress_start(struct progress *out, uint64_t total, bool lines)
{
    const char *terminal = getenv("TERM");
    *out = (struct progress){ .total = total, .start = now_seconds() };
    out->terminal = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
    out->lines = lines && !out->terminal;
    out->last = out->terminal ? 0 : out->start;
}

static void draw_bar(char bar[33], double fraction)
{
    unsigned filled = (unsigned)(fraction * 32);
    for (unsigned i = 0; i < 32; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[32] = '\0';
}

void progress_show(struct progress *progress, uint64_t done, uint64_t failed)
{
    double now = now_seconds();
    if ((!progress->terminal && !progress->lines) || now - progress->last < (progress->terminal ? 0.1 : 3.0))
        return;
    progress->last = now;
    double rate = now > progress->start ? (double)done / (now - progress->start) : 0;
    char left[FORMAT_ROOM], bar[33], errors[FORMAT_ROOM] = "";
    format_clock(left, rate > 0 ? (double)(progress->total - done) / rate : 0);
    draw_bar(bar, progress->total ? (double)done / (double)progress->total : 1);
    if (failed)
        snprintf(errors, sizeof(errors), "  %" PRIu64 " failed", failed);
    flockfile(stderr);
    if (progress->terminal)
        fprintf(stderr, "\r\033[K[%s] %" PRIu64 "/%" PRIu64 "  %.1f/s  %s left%s", bar, done, progress->total, rate,
                rate > 0 ? left : "?", errors);
    else
        fprintf(stderr, "kiln: %" PRIu64 "/%" PRIu64 "  %.1f/s  %s left%s\n", done, progress->total, rate, left,
                errors);
    if (progress->terminal)
        atomic_store(&on_screen, true);
    fflush(stderr);
    funlockfile(stderr);
}

void progress_say(struct progress *progress, double fraction, const char *words)
{
    char bar[33];
    double now = now_seconds();
    if (!progress->terminal || now - progress->last < 0.1)
        return;
    progress->last = now;
    draw_bar(bar, fraction > 0 ? (fraction < 1 ? fraction : 1) : 0);
    flockfile(stderr);
    fprintf(stderr, "\r\033[K[%s] %s", bar, words);
    atomic_store(&on_screen, true);
    fflush(stderr);
    funlockfile(stderr);
}

void progress_end(void)
{
    flockfile(stderr);
    progress_hide();
    fflush(stderr);
    funlockfile(stderr);
}
