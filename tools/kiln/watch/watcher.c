/* Watches on a libuv loop, which runs only in watcher_wait; the kernel keeps the events of a round meanwhile. After
 * a change all is watched anew, because directories and links may have come, gone or been replaced. */
#include "watch/watch.h"

#include <fts.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "cli/interrupt.h"

enum { MOST_DIRECTORIES = 4096, QUIET_MS = 50, BURST_MS = 1000 };

/* The kernel drops events beyond 16384 unread ones, by default. libuv does not tell. */
enum { MANY_EVENTS = 8192 };

struct watcher {
    uv_loop_t loop;
    uv_timer_t quiet, burst; /* run once there is a change; either one ends the wait */
    uv_signal_t interrupts[2];
    const text_list *files, *trees, *beside;
    size_t events; /* since the wait began */
    bool warned;
};

/* ---- Events */

static void on_settled(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void note_change(struct watcher *watcher)
{
    uv_timer_start(&watcher->quiet, on_settled, QUIET_MS, 0);
    if (!uv_is_active((uv_handle_t *)&watcher->burst))
        uv_timer_start(&watcher->burst, on_settled, BURST_MS, 0);
}

static void on_interrupt(uv_signal_t *handle, int signal_number)
{
    interrupt_note(signal_number);
    uv_stop(handle->loop);
}

/* Files that editors keep beside the edited ones. */
static bool is_scratch(const char *name)
{
    size_t length = strlen(name);
    return name[0] == '.' || name[0] == '#' || (length > 0 && name[length - 1] == '~') || strcmp(name, "4913") == 0;
}

/* Names of headers; other files in a project's directory change for other reasons. */
static bool is_header(const char *name)
{
    static const char *const endings[] = { ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".cu", ".c" };
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < COUNT_OF(endings); i++)
        if (strcmp(ending, endings[i]) == 0)
            return true;
    return !ending;
}

/* The names that count in a directory: one, "" for all headers, or NULL for all but scratch. */
static bool is_wanted(const char *wanted, const char *name)
{
    if (wanted && *wanted)
        return strcmp(name, wanted) == 0;
    return !is_scratch(name) && (!wanted || is_header(name));
}

static void on_event(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct watcher *watcher = watch->loop->data;
    (void)events;
    (void)status;
    watcher->events++;
    if (is_wanted(watch->data, name))
        note_change(watcher);
}

/* ---- Directories */

static void free_watch(uv_handle_t *watch)
{
    free(watch->data);
    free(watch);
}

/* `name` is for is_wanted, and is taken over. Returns 0 or libuv's error. */
static int watch_directory(struct watcher *watcher, const char *dir, char *name)
{
    uv_fs_event_t *watch = need_alloc(sizeof(*watch));
    uv_fs_event_init(&watcher->loop, watch);
    watch->data = name;
    int error = uv_fs_event_start(watch, on_event, dir, 0);
    if (error)
        uv_close((uv_handle_t *)watch, free_watch);
    return error;
}

/* Watches each directory on the way for the next name, from the first, so that one that is removed, made again or
 * replaced is noticed. Returns the error of the last one. */
static int watch_path(struct watcher *watcher, const char *path)
{
    int error = 0;
    for (const char *at = path; *at;) {
        const char *name = at + strspn(at, "/");
        size_t length = strcspn(name, "/");
        const char *dir = name == path ? "." : need_format("%.*s", (int)(name - path), path);
        error = watch_directory(watcher, dir, need_format("%.*s", (int)length, name));
        at = name + length;
    }
    return error;
}

/* A directory is watched before it is read, so that none below it is missed. */
static int watch_below(struct watcher *watcher, char *top, bool headers)
{
    char *const tops[] = { top, NULL };
    /* The slash refuses a file. */
    int error = watch_directory(watcher, need_format("%s/", top), headers ? need_copy("") : NULL);
    FTS *tree = error ? NULL : fts_open(tops, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    int count = 1;
    for (FTSENT *entry; tree && (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_D || entry->fts_level == FTS_ROOTLEVEL)
            continue;
        if (count == MOST_DIRECTORIES && !watcher->warned)
            note("%s has more directories below it than are watched (%d)", top, MOST_DIRECTORIES);
        watcher->warned = count == MOST_DIRECTORIES || watcher->warned;
        if (count == MOST_DIRECTORIES || entry->fts_name[0] == '.')
            fts_set(tree, entry, FTS_SKIP);
        else if (!watch_directory(watcher, entry->fts_accpath, headers ? need_copy("") : NULL))
            count++;
    }
    if (tree)
        fts_close(tree);
    return error;
}

/* The file behind a link is watched, because an editor saves that, and the link itself, which may be changed, too. */
static int watch_file_or_tree(struct watcher *watcher, const char *path, bool is_tree, bool headers)
{
    int error = watch_path(watcher, path);
    char *real = realpath(path, NULL);
    if (real)
        watch_path(watcher, real);
    if (is_tree)
        error = real ? watch_below(watcher, real, headers) : UV_ENOENT;
    free(real);
    return error;
}

static int watch_list(struct watcher *watcher, const text_list *list, bool tell)
{
    int status = STATUS_DONE;
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->items[i];
        int error = watch_file_or_tree(watcher, path, list != watcher->files, list == watcher->beside);
        if (error && tell)
            status =
                fail(STATUS_FAILED, "%s cannot be watched: %s", path,
                     error == UV_ENOSPC ? "too many directories are, by all programs; raise fs.inotify.max_user_watches"
                                        : uv_strerror(error));
    }
    return status;
}

static int watch_all(struct watcher *watcher, bool tell)
{
    int status = watch_list(watcher, watcher->files, tell);
    int trees = watch_list(watcher, watcher->trees, tell), beside = watch_list(watcher, watcher->beside, tell);
    return status ? status : trees ? trees : beside;
}

static void close_handle(uv_handle_t *handle, void *only_watches)
{
    bool is_watch = handle->type == UV_FS_EVENT;
    if (!uv_is_closing(handle) && (is_watch || !only_watches))
        uv_close(handle, is_watch ? free_watch : NULL);
}

/* ---- The watcher */

struct watcher *watcher_open(const text_list *files, const text_list *trees, const text_list *beside)
{
    struct watcher *watcher = need_alloc(sizeof(*watcher));
    *watcher = (struct watcher){ .files = files, .trees = trees, .beside = beside };
    int error = uv_loop_init(&watcher->loop);
    if (error) {
        fail(STATUS_FAILED, "files cannot be watched: %s", uv_strerror(error));
        free(watcher);
        return NULL;
    }
    watcher->loop.data = watcher;
    uv_timer_init(&watcher->loop, &watcher->quiet);
    uv_timer_init(&watcher->loop, &watcher->burst);
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&watcher->loop, &watcher->interrupts[i]);
        uv_signal_start_oneshot(&watcher->interrupts[i], on_interrupt, i ? SIGTERM : SIGINT);
    }
    if (watch_all(watcher, true) == STATUS_DONE)
        return watcher;
    watcher_close(watcher);
    return NULL;
}

bool watcher_wait(struct watcher *watcher)
{
    watcher->events = 0;
    uv_run(&watcher->loop, UV_RUN_NOWAIT);
    if (watcher->events >= MANY_EVENTS)
        note_change(watcher);
    if (!interrupt_seen())
        uv_run(&watcher->loop, UV_RUN_DEFAULT);
    if (interrupt_seen())
        return false;
    uv_timer_stop(&watcher->quiet);
    uv_timer_stop(&watcher->burst);
    return true;
}

void watcher_renew(struct watcher *watcher)
{
    uv_walk(&watcher->loop, close_handle, watcher);
    watch_all(watcher, false);
}

void watcher_close(struct watcher *watcher)
{
    uv_walk(&watcher->loop, close_handle, NULL);
    uv_run(&watcher->loop, UV_RUN_DEFAULT);
    uv_loop_close(&watcher->loop);
    free(watcher);
}
