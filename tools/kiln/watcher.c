#include "watcher.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "format.h"
#include "interrupt.h"

enum { MOST_PLACES = 4096, MOST_DEPTH = 16, LOOK_MS = 100, QUIET_MS = 50, EVENT_ROOM = 1 << 16 };

static const double burst_s = 1;

static const uint32_t mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB |
                             IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

int watcher_open(struct watcher *out)
{
    *out = (struct watcher){ .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
    return out->fd >= 0 ? STATUS_DONE : fail(STATUS_FAILED, "files cannot be watched: %s", strerror(errno));
}

/* ---- Directories */

static bool knows(const struct watcher *watcher, int number, size_t root)
{
    for (size_t i = 0; i < watcher->place_count; i++)
        if (watcher->places[i].number == number && watcher->places[i].root == root)
            return true;
    return false;
}

/* Returns whether the directory is new to the root; errno says why not, 0 where it was known. */
static bool add_place(struct watcher *watcher, const char *dir, size_t root)
{
    errno = 0;
    int number = inotify_add_watch(watcher->fd, dir, mask);
    if (number < 0 || knows(watcher, number, root))
        return false;
    watcher->places = need_array(watcher->places, watcher->place_count + 1, sizeof(*watcher->places));
    watcher->places[watcher->place_count++] = (watch_place){ number, root };
    return true;
}

static bool is_dir(DIR *parent, const struct dirent *entry)
{
    struct stat facts;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    return fstatat(dirfd(parent), entry->d_name, &facts, 0) == 0 && S_ISDIR(facts.st_mode);
}

/* A link that leads back is a directory that is known, which ends the way. */
static bool add_below(struct watcher *watcher, const char *dir, size_t root, int depth)
{
    if (watcher->place_count == MOST_PLACES || depth == MOST_DEPTH) {
        if (!watcher->warned)
            note("%s has more directories below it than are watched (%d, %d deep)", watcher->roots[root].dir,
                 MOST_PLACES, MOST_DEPTH);
        watcher->warned = true;
        return true;
    }
    if (!add_place(watcher, dir, root))
        return errno == 0;
    DIR *open = watcher->roots[root].name ? NULL : opendir(dir);
    const struct dirent *entry = NULL;
    while (open && (entry = readdir(open))) {
        if (entry->d_name[0] == '.' || !is_dir(open, entry))
            continue;
        char *path = need_format("%s/%s", dir, entry->d_name);
        add_below(watcher, path, root, depth + 1);
        free(path);
    }
    if (open)
        closedir(open);
    return true;
}

/* All roots anew, because directories have come or gone. A watch that is there already stays the same one. */
static void rescan(struct watcher *watcher)
{
    watcher->place_count = 0;
    watcher->missing = false;
    for (size_t i = 0; i < watcher->root_count; i++)
        if (!add_below(watcher, watcher->roots[i].dir, i, 0))
            watcher->missing = true;
}

/* Takes over the name. */
static int add_root(struct watcher *watcher, const char *dir, char *name)
{
    watcher->roots = need_array(watcher->roots, watcher->root_count + 1, sizeof(*watcher->roots));
    watcher->roots[watcher->root_count++] = (watch_root){ need_copy(dir), name };
    if (add_below(watcher, dir, watcher->root_count - 1, 0))
        return STATUS_DONE;
    return fail(STATUS_FAILED, "directory %s cannot be watched: %s", dir,
                errno == ENOSPC ? "too many are, by all programs; raise fs.inotify.max_user_watches" : strerror(errno));
}

static int add_named(struct watcher *watcher, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = !slash          ? need_copy(".")
                : slash == path ? need_copy("/")
                                : need_format("%.*s", (int)(slash - path), path);
    int status = add_root(watcher, dir, need_copy(slash ? slash + 1 : path));
    free(dir);
    return status;
}

int watcher_add_file(struct watcher *watcher, const char *path)
{
    /* Behind a link it is the file that is saved; the link itself may be changed, too. */
    char *real = realpath(path, NULL);
    int status = add_named(watcher, path);
    if (!status && real && strcmp(real, path) != 0)
        status = add_named(watcher, real);
    free(real);
    return status;
}

int watcher_add_tree(struct watcher *watcher, const char *dir)
{
    return add_root(watcher, dir, NULL);
}

/* ---- Events */

/* What editors write beside the files that are edited. */
static bool is_scratch(const char *name)
{
    size_t length = strlen(name);
    return name[0] == '.' || name[0] == '#' || (length > 0 && name[length - 1] == '~') || strcmp(name, "4913") == 0;
}

/* A directory that is itself moved or deleted may have been replaced by another, which has made no event of its own. */
static bool matters(const struct watcher *watcher, const struct inotify_event *event)
{
    for (size_t i = 0; i < watcher->place_count; i++) {
        if (watcher->places[i].number != event->wd)
            continue;
        if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF))
            return true;
        const char *wanted = watcher->roots[watcher->places[i].root].name;
        if (wanted ? event->len > 0 && strcmp(event->name, wanted) == 0 : event->len > 0 && !is_scratch(event->name))
            return true;
    }
    return false;
}

static bool moves_directories(const struct inotify_event *event)
{
    return event->mask & (IN_IGNORED | IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF) ||
           (event->mask & IN_ISDIR && event->mask & (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM));
}

/* Takes all events that are there; returns whether one matters, or a root has gone or come. */
static bool drain(struct watcher *watcher)
{
    _Alignas(struct inotify_event) char buffer[EVENT_ROOM];
    bool changed = false, scan = false, missing = watcher->missing;
    ssize_t got = 0;
    while ((got = read(watcher->fd, buffer, sizeof(buffer))) > 0)
        for (const char *at = buffer; at < buffer + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            changed = changed || matters(watcher, event) || event->mask & IN_Q_OVERFLOW;
            scan = scan || moves_directories(event);
            at += sizeof(*event) + event->len;
        }
    if (scan)
        rescan(watcher);
    return changed || watcher->missing != missing;
}

/* Files that come before their directory is watched make no event: that a root has come back is a change. */
static bool come_back(struct watcher *watcher)
{
    if (!watcher->missing)
        return false;
    rescan(watcher);
    return !watcher->missing;
}

static bool look(struct watcher *watcher, int wait_ms)
{
    struct pollfd one = { .fd = watcher->fd, .events = POLLIN };
    bool events = poll(&one, 1, wait_ms) > 0 && drain(watcher);
    return come_back(watcher) || events;
}

bool watcher_wait(struct watcher *watcher)
{
    /* The signal may reach another thread, which ends no wait of this one. */
    while (!interrupt_seen() && !look(watcher, LOOK_MS))
        ;
    double begun = now_seconds();
    while (!interrupt_seen() && now_seconds() - begun < burst_s && look(watcher, QUIET_MS))
        ;
    return !interrupt_seen();
}

void watcher_close(struct watcher *watcher)
{
    for (size_t i = 0; i < watcher->root_count; i++) {
        free(watcher->roots[i].dir);
        free(watcher->roots[i].name);
    }
    free(watcher->roots);
    free(watcher->places);
    if (watcher->fd >= 0)
        close(watcher->fd);
}
