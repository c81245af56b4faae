/* The sandbox: which paths are allowed, the kernel's net, and entering both. Calls of the system are made by number,
 * for the program's own functions come back here. */
#include "kiln-worker/sandbox.h"

#include "base/alloc.h"
#include "kiln-worker/recorder.h"
#include "source/reads.h"
#include "source/source.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOTES_SIZE = 64 * 1024 };

static char *const *allowed;     /* constant once `started` is set */
static const kiln__list *places; /* NULL: paths are what they are; constant once `started` is set */
static atomic_bool started;

/* The paths that were asked for, one after the other: '+' found or '-' refused, the path, a NUL. */
static struct {
    pthread_mutex_t lock;
    char text[NOTES_SIZE];
    size_t length;
    bool incomplete;
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool kiln__sandbox_is_entered(void)
{
    return atomic_load(&started);
}

/* ---- Paths that were asked for */

/* Once something did not fit, nothing is looked for or added: a source with a million paths must not cost their
 * square. */
static void note_locked(const char *path, bool found)
{
    size_t length = strlen(path);
    char mark = found ? '+' : '-';
    for (const char *at = notes.text; at < notes.text + notes.length && !notes.incomplete; at += strlen(at) + 1)
        if (at[0] == mark && strcmp(at + 1, path) == 0)
            return;
    if (notes.incomplete || length + 2 > sizeof(notes.text) - notes.length) {
        notes.incomplete = true;
        return;
    }
    notes.text[notes.length] = mark;
    memcpy(notes.text + notes.length + 1, path, length + 1);
    notes.length += length + 2;
}

static void note(int dir, const char *path, bool found)
{
    pthread_mutex_lock(&notes.lock);
    /* A path relative to another directory would mean another file to a reader of the notes. */
    if (dir != AT_FDCWD && path[0] != '/')
        notes.incomplete = true;
    else
        note_locked(path, found);
    pthread_mutex_unlock(&notes.lock);
}

bool kiln__sandbox_visit(kiln__sandbox_visitor *fn, void *data)
{
    pthread_mutex_lock(&notes.lock);
    bool complete = !notes.incomplete;
    for (const char *at = notes.text; at < notes.text + notes.length; at += strlen(at) + 1)
        fn(data, at + 1, at[0] == '+');
    notes.length = 0;
    notes.incomplete = false;
    pthread_mutex_unlock(&notes.lock);
    return complete;
}

/* ---- Paths that are allowed */

static bool is_allowed(const char *path)
{
    for (char *const *at = allowed; *at != NULL; at++) {
        size_t length = strlen(*at);
        while (length > 0 && (*at)[length - 1] == '/')
            length--;
        if (strncmp(path, *at, length) == 0 && (path[length] == '\0' || path[length] == '/'))
            return true;
    }
    return false;
}

/* The path of an open file, no link and no ".." in it. A pipe or a socket, which has none, gives a text that does not
 * begin with a slash. */
static bool path_of(int fd, char path[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name, path, (size_t)PATH_MAX);
    if (length >= 0)
        errno = length > 0 ? ENAMETOOLONG : ENOENT;
    if (length <= 0 || length >= PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

/* The real path of a path in a place. */
static bool find_in_places(const char *asked, char out[PATH_MAX])
{
    char place[KILN__PLACE_SIZE], rest[KILN__READ_PATH_MAX];
    const char *name = NULL, *path;
    if (!kiln__reads_split(asked, place, rest))
        return false;
    while (kiln__list_next_pair(places, &name, &path))
        if (strcmp(name, place) == 0)
            return snprintf(out, PATH_MAX, "%s/%s", path, rest) < PATH_MAX;
    return false;
}

/* A descriptor of a standard header, a file in memory that is made once: the compiler knows files by their inodes. The
 * caller closes it. -1: there is none of that name, or the system gives none, which `asked` then does not tell. */
static int reach_standard(const char *asked, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int *files; /* 0: not made yet */
    const kiln__embedded_file *file = kiln__standard_file(name);
    if (file == NULL)
        return -1;
    pthread_mutex_lock(&lock);
    int *made = files != NULL || (files = kiln__calloc(kiln__standard_count, sizeof(*files))) != NULL
                    ? &files[file - kiln__standard_files]
                    : NULL;
    if (made != NULL && *made == 0) {
        int fd = memfd_create(name, MFD_CLOEXEC);
        bool whole = fd > 0 && write(fd, file->text, file->length) == (ssize_t)file->length;
        if (whole)
            *made = fd;
        else if (fd >= 0)
            close(fd);
    }
    int fd = made != NULL && *made > 0 ? fcntl(*made, F_DUPFD_CLOEXEC, 0) : -1, error = errno;
    pthread_mutex_unlock(&lock);
    if (fd < 0)
        kiln__recorder_unknown(asked, error);
    return fd;
}

/* kiln__sandbox_reach for a path in a place. A path in no place leads to nothing always and everywhere, and is not
 * noted. Links are followed even where the call would not: the compiler reads the file behind them. A file that is
 * there and whose path cannot be found out, for want of /proc, is unknown. */
static int reach_in_places(const char *asked)
{
    char path[PATH_MAX], resolved[PATH_MAX], place[KILN__PLACE_SIZE], rest[KILN__READ_PATH_MAX];
    int fd = -1;
    if (kiln__reads_split(asked, place, rest) && strcmp(place, KILN__READS_STANDARD) == 0) {
        fd = reach_standard(asked, rest);
    } else if (find_in_places(asked, path)) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
        bool there = fd >= 0, known = there && path_of(fd, resolved), good = known && is_allowed(resolved);
        int error = errno;
        bool nothing = known ? !good : error == ENAMETOOLONG || (!there && kiln__reads_means_nothing(error));
        if (nothing)
            kiln__recorder_nothing(asked);
        else if (!good)
            kiln__recorder_unknown(asked, error);
        if (fd >= 0 && (!good || !kiln__recorder_found(asked, resolved, fd))) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        errno = ENOENT;
    return fd;
}

void kiln__sandbox_unknown(const char *path, int error)
{
    if (places != NULL)
        kiln__recorder_unknown(path, error);
}

int kiln__sandbox_refuse(int dir, const char *path)
{
    if (places == NULL)
        note(dir, path, false);
    errno = ENOENT;
    return -1;
}

int kiln__sandbox_reach(int dir, const char *path, int flags)
{
    char resolved[PATH_MAX];
    if (places != NULL)
        return reach_in_places(path);
    /* Where nothing is allowed the path is not even walked: that may mount things or wait for a server. */
    int fd = allowed[0] == NULL ? -1 : (int)syscall(SYS_openat, dir, path, O_PATH | O_CLOEXEC | flags);
    if (fd < 0)
        return kiln__sandbox_refuse(dir, path);
    if (!path_of(fd, resolved) || !is_allowed(resolved)) {
        close(fd);
        return kiln__sandbox_refuse(dir, path);
    }
    note(dir, path, true);
    return fd;
}

/* ---- The kernel's net: Landlock */

/* As in <linux/landlock.h>, which may be older than the kernel that the program meets; the numbers of the calls are the
 * same on every architecture. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, ASK_VERSION = 1, RULE_PATH_BENEATH = 1 };
enum { RIGHT_READ_FILE = 1 << 2, RIGHT_READ_DIR = 1 << 3 };

typedef struct ruleset {
    uint64_t files;   /* rights that are refused unless a rule gives them */
    uint64_t network; /* since version 4 */
    uint64_t scopes;  /* since version 6 */
} ruleset;

typedef struct path_beneath {
    uint64_t rights;
    int32_t fd;
} __attribute__((packed)) path_beneath;

/* Everything that a version knows. A kernel takes a longer struct than its own if the rest is zero. */
static ruleset everything(int version)
{
    int file_rights = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
    return (ruleset){
        .files = (UINT64_C(1) << file_rights) - 1,
        .network = version >= 4 ? 3 : 0, /* bind and connect by TCP */
        .scopes = version >= 6 ? 3 : 0,  /* abstract sockets and signals, to processes outside */
    };
}

static bool add_rule(int rules, const char *path)
{
    struct stat status;
    path_beneath rule = { 0 };
    rule.fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.fd < 0)
        return errno == ENOENT;
    rule.rights =
        fstat(rule.fd, &status) == 0 && S_ISDIR(status.st_mode) ? RIGHT_READ_FILE | RIGHT_READ_DIR : RIGHT_READ_FILE;
    bool added = syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) == 0;
    close(rule.fd);
    return added;
}

static bool restrict_self(int rules, char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (!add_rule(rules, *paths))
            return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules, 0) == 0;
}

/* Lets the calling thread and those it will start open nothing but `paths`. Writes how it went into `reason`, true or
 * false. */
static bool enter_landlock(char *const *paths, char *reason, size_t size)
{
    int version = (int)syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);
    if (version < 1) {
        snprintf(reason, size, "this kernel has no Landlock: %s",
                 errno == EOPNOTSUPP ? "it is switched off" : strerror(errno));
        return false;
    }
    ruleset all = everything(version);
    int rules = (int)syscall(CREATE_RULESET, &all, sizeof(all), 0);
    bool entered = rules >= 0 && restrict_self(rules, paths);
    if (entered)
        snprintf(reason, size, "Landlock %d", version);
    else
        snprintf(reason, size, "Landlock %d refuses its service: %s", version, strerror(errno));
    if (rules >= 0)
        close(rules);
    return entered;
}

/* ---- Entering */

static void free_paths(char **paths)
{
    for (size_t i = 0; paths[i] != NULL; i++)
        kiln__free(paths[i]);
    kiln__free(paths);
}

/* A resolved copy. NULL with a reason. */
static char **resolve(const char *const *given, char *reason, size_t size)
{
    static const char *const none[] = { NULL };
    size_t count = 0, kept = 0;
    char resolved[PATH_MAX];
    given = given != NULL ? given : none;
    while (given[count] != NULL)
        count++;
    char **paths = kiln__calloc(count + 1, sizeof(*paths));
    bool failed = paths == NULL;
    reason[0] = '\0';
    for (size_t i = 0; i < count && !failed && reason[0] == '\0'; i++) {
        if (given[i][0] != '/')
            snprintf(reason, size, "'%s' is no absolute path", given[i]);
        else if (realpath(given[i], resolved) != NULL)
            failed = (paths[kept++] = kiln__strdup(resolved)) == NULL;
    }
    if (failed)
        kiln__text_copy(reason, size, "out of memory");
    if (reason[0] == '\0')
        return paths;
    if (paths != NULL)
        free_paths(paths);
    return NULL;
}

/* Loads the files that the C library would open by itself later on, past the calls: the time zone, which __TIME__
 * needs, and the library by which a thread ends itself. */
static void load_late_files(void)
{
    tzset();
    if (dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL) == NULL)
        dlerror();
}

bool kiln__sandbox_enter_nets(unsigned nets, const char *const *given, char *reason, size_t size)
{
    static bool entered;
    if (entered) {
        kiln__text_copy(reason, size, "the sandbox has been entered before");
        return false;
    }
    if ((nets & KILN__SANDBOX_CALLS) != 0 && !kiln__calls_are_in_place(reason, size))
        return false;
    char **paths = resolve(given, reason, size);
    if (paths == NULL)
        return false;
    load_late_files();
    kiln__text_copy(reason, size, "no Landlock asked for");
    bool calls = (nets & KILN__SANDBOX_CALLS) != 0;
    bool kernel = (nets & KILN__SANDBOX_KERNEL) != 0 && enter_landlock(paths, reason, size);
    if (calls) {
        allowed = paths;
        atomic_store(&started, true);
    } else {
        free_paths(paths);
    }
    entered = calls || kernel;
    return entered;
}

bool kiln__sandbox_enter_places(const kiln__list *given, char *reason, size_t size)
{
    static kiln__list kept;
    const char **paths = kiln__list_array(given, 1, 2);
    if (paths == NULL || !kiln__list_read(&kept, given->bytes.data, given->bytes.length)) {
        kiln__free(paths);
        kiln__text_copy(reason, size, "out of memory");
        return false;
    }
    places = &kept;
    bool entered = kiln__sandbox_enter_nets(KILN__SANDBOX_CALLS | KILN__SANDBOX_KERNEL, paths, reason, size);
    kiln__free(paths);
    return entered;
}
