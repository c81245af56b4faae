/* Draws the progress bar, and removes it before anything else is printed on stderr. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/common.h"
#include "text/format.h"

static atomic_bool on_screen;

void progress_hide(void)
{
    if (atomic_exchange(&on_screen, false))
        fputs("\r\033[K", stderr);
}

void progress_start(struct progress *out, uint64_t total, bool lines)
{
    *out = (struct progress){ .total = total, .start = now_seconds(), .terminal = is_terminal(stderr) };
    out->lines = lines && !out->terminal;
    out->last = out->terminal ? 0 : out->start;
}

/* A bar and words behind it, in one line of the terminal: the words leave room for the bar, and are cut if there is too
 * little for both. The stream is locked until end_drawing. */
static void draw_bar(double fraction, const char *words)
{
    enum { LONGEST = 32, SHORTEST = 8, FRAME = 3 };
    size_t width = terminal_width(stderr) - 1, length = text_columns(words, strlen(words));
    size_t bar = width > length + FRAME + SHORTEST ? width - length - FRAME : SHORTEST;
    bar = bar < LONGEST ? bar : LONGEST;
    size_t room = width > bar + FRAME ? width - bar - FRAME : 0;
    size_t filled = (size_t)((fraction > 0 ? fraction < 1 ? fraction : 1 : 0) * (double)bar);
    flockfile(stderr);
    fputs("\r\033[K[", stderr);
    for (size_t i = 0; i < bar; i++)
        fputc(i < filled ? '=' : i == filled ? '>' : ' ', stderr);
    fprintf(stderr, "] %.*s", (int)text_within(words, room), words);
    atomic_store(&on_screen, true);
}

static void end_drawing(void)
{
    fflush(stderr);
    funlockfile(stderr);
}

void progress_show(struct progress *progress, uint64_t done, uint64_t failed)
{
    double now = now_seconds();
    if ((!progress->terminal && !progress->lines) || now - progress->last < (progress->terminal ? 0.1 : 3.0))
        return;
    progress->last = now;
    double rate = now > progress->start ? (double)done / (now - progress->start) : 0;
    const char *left = format_clock(rate > 0 ? (double)(progress->total - done) / rate : 0);
    const char *words = need_format("%" PRIu64 "/%" PRIu64 "  %.1f/s  %s left%s%s%s", done, progress->total, rate,
                                    progress->terminal && rate <= 0 ? "?" : left, failed ? "  " : "",
                                    failed ? format_count(failed) : "", failed ? " failed" : "");
    if (progress->terminal) {
        draw_bar(progress->total ? (double)done / (double)progress->total : 1, words);
    } else {
        flockfile(stderr);
        fprintf(stderr, "kiln: %s\n", words);
    }
    end_drawing();
}

void progress_say(struct progress *progress, double fraction, const char *words)
{
    double now = now_seconds();
    if (!progress->terminal || now - progress->last < 0.1)
        return;
    progress->last = now;
    draw_bar(fraction, words);
    end_drawing();
}

void progress_end(void)
{
    flockfile(stderr);
    progress_hide();
    end_drawing();
}

void progress_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(changed, lock, &until);
}
