#include "jit/daemon/client.h"

#include "base/alloc.h"
#include "jit/daemon/protocol.h"
#include "os/beside.h"
#include "os/cpu.h"
#include "os/process.h"
#include "os/trust.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECT_MS = 100,
    GREETING_MS = 250,
    START_MS = 5000, /* until a daemon that is started listens */
    IDLE_S = 600,    /* after which such a daemon ends */
    FIGURES_MS = 5000
};
#define NS_PER_MS    ((uint64_t)1000000)
#define PAUSE_NS     (1000 * NS_PER_MS)
#define PAUSE_MAX_NS (60 * PAUSE_NS)

struct kiln__daemon {
    const kiln__log *log;
    char *socket, *directory;
    bool start;
    atomic_uint_least64_t paused_to, pause_ns, started_ns;
    atomic_uint_least64_t found, failures, lost, refused;
    atomic_bool warned;
};

kiln__daemon *kiln__daemon_open(const char *socket, const char *directory, bool start, const kiln__log *log)
{
    kiln__daemon *daemon = kiln__calloc(1, sizeof(*daemon));
    if (daemon == NULL)
        return NULL;
    *daemon = (kiln__daemon){
        .log = log, .socket = kiln__strdup(socket), .directory = kiln__strdup(directory), .start = start
    };
    if (daemon->socket != NULL && daemon->directory != NULL)
        return daemon;
    kiln__daemon_close(daemon);
    return NULL;
}

void kiln__daemon_close(kiln__daemon *daemon)
{
    if (daemon == NULL)
        return;
    kiln__free(daemon->socket);
    kiln__free(daemon->directory);
    kiln__free(daemon);
}

const char *kiln__daemon_socket(const kiln__daemon *daemon)
{
    return daemon->socket;
}

void kiln__daemon_count(const kiln__daemon *daemon, kiln__daemon_counts *out)
{
    *out = (kiln__daemon_counts){ .found = atomic_load(&daemon->found),
                                  .failures = atomic_load(&daemon->failures),
                                  .lost = atomic_load(&daemon->lost),
                                  .refused = atomic_load(&daemon->refused) };
}

/* ---- Connecting */

static uint64_t deadline(uint32_t ms)
{
    return kiln__cpu_now_ns() + ms * NS_PER_MS;
}

/* The directory must be closed to other users, or one of them could put a socket of his own there. */
static int check_directory(const char *socket, const char **why)
{
    char path[KILN__DAEMON_PATH_SIZE], buffer[128];
    struct stat status;
    *why = "it is no absolute path";
    if (kiln__text_copy(path, sizeof(path), socket) >= sizeof(path) || path[0] != '/')
        return -EPERM;
    *strrchr(path, '/') = '\0';
    if (stat(path[0] != '\0' ? path : "/", &status) != 0)
        return -errno;
    *why = status.st_uid != geteuid() ? "its directory is another user's" : "others may write its directory";
    if (kiln__trust_refuse_directory(&status, 0, buffer, sizeof(buffer)) != NULL)
        return -EPERM;
    *why = "";
    return 0;
}

/* A socket, or a negative errno. */
static int open_connection(const char *socket_path, const char **why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct timeval patience = { .tv_usec = CONNECT_MS * 1000 };
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t size = sizeof(peer);
    int error = check_directory(socket_path, why);
    if (error != 0)
        return error;
    kiln__text_copy(address.sun_path, sizeof(address.sun_path), socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        error = errno == EINPROGRESS ? -EAGAIN : -errno;
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
        *why = "another user listens there";
        error = -EPERM;
    }
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

static int error_of(kiln__channel_result result)
{
    return result == KILN__CHANNEL_DONE        ? 0
           : result == KILN__CHANNEL_LATE      ? -ETIMEDOUT
           : result == KILN__CHANNEL_NO_MEMORY ? -ENOMEM
           : result == KILN__CHANNEL_MALFORMED ? -EPROTO
                                               : -ECONNRESET;
}

/* Connects and takes the greeting, which the caller frees. A socket, or a negative errno. */
static int greet(const char *socket_path, uint64_t until, kiln__message *hello, const char **directory,
                 const char **why)
{
    memset(hello, 0, sizeof(*hello));
    int fd = open_connection(socket_path, why);
    if (fd < 0)
        return fd;
    int error = error_of(kiln__channel_receive(fd, KILN__DAEMON_LIMIT, until, hello));
    if (error == 0 && !kiln__daemon_get_hello(&hello->frame, directory)) {
        *why = "the daemon is of another version of Kiln";
        error = -EPROTO;
    } else if (error == -ECONNRESET) {
        *why = "it takes no more hosts";
        error = -EBUSY;
    }
    if (error == 0)
        return fd;
    kiln__message_fini(hello);
    close(fd);
    return error;
}

/* ---- Starting */

/* Has `kiln serve` start one, unless it was tried a moment before. It returns once a daemon listens. */
static bool start_daemon(kiln__daemon *daemon)
{
    static const char *const places[] = { "../../bin/kiln", "../../tools/kiln" };
    uint64_t before = atomic_load(&daemon->started_ns); /* before the clock, so that it is not later */
    const uint64_t now = kiln__cpu_now_ns();
    kiln__beside found;
    char idle[16];
    int status = -ENOENT;
    if ((before != 0 && now - before < 10 * PAUSE_NS) ||
        !atomic_compare_exchange_strong(&daemon->started_ns, &before, now))
        return false;
    snprintf(idle, sizeof(idle), "%d", (int)IDLE_S);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && status == -ENOENT; i++) {
        if (kiln__beside_find(places[i], X_OK, &found) == KILN__BESIDE_FOUND) {
            const char *const argv[] = { found.path,    "serve",           "--background", "--socket", daemon->socket,
                                         "--cache-dir", daemon->directory, "--idle",       idle,       NULL };
            status = kiln__process_run(argv, NULL, 0, START_MS, NULL);
        }
        kiln__text_fini(&found.looked);
    }
    if (status != 0)
        kiln__log_line(daemon->log, KILN_LOG_WARN, "no daemon could be started (%d): compiling here", status);
    return status == 0;
}

/* ---- Asking */

static bool is_absent(int error)
{
    return error == -ENOENT || error == -ECONNREFUSED;
}

static bool is_own_store(const kiln__daemon *daemon, const char *directory)
{
    struct stat own, other;
    return stat(daemon->directory, &own) == 0 && stat(directory, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

/* Nothing is asked for a while, twice as long as the last time. */
static void pause_after(kiln__daemon *daemon)
{
    if (kiln__cpu_now_ns() < atomic_load(&daemon->paused_to))
        return; /* another thread's request has failed with this one */
    uint64_t pause = 2 * atomic_load(&daemon->pause_ns);
    pause = pause < PAUSE_NS ? PAUSE_NS : pause > PAUSE_MAX_NS ? PAUSE_MAX_NS : pause;
    atomic_store(&daemon->pause_ns, pause);
    atomic_store(&daemon->paused_to, kiln__cpu_now_ns() + pause);
}

/* A connection to a daemon of this store; -1: there is none. */
static int reach(kiln__daemon *daemon)
{
    const char *directory = NULL, *why = "";
    kiln__message hello;
    int fd = greet(daemon->socket, deadline(GREETING_MS), &hello, &directory, &why);
    if (is_absent(fd) && daemon->start && start_daemon(daemon))
        fd = greet(daemon->socket, deadline(GREETING_MS), &hello, &directory, &why);
    if (fd >= 0 && (directory == NULL || !is_own_store(daemon, directory))) {
        why = "the daemon has another store";
        close(fd);
        fd = -EXDEV;
    }
    kiln__message_fini(&hello);
    if (fd >= 0 || is_absent(fd))
        return fd < 0 ? -1 : fd;
    const bool refused = fd == -EPERM || fd == -EPROTO || fd == -EXDEV;
    atomic_fetch_add(refused ? &daemon->refused : &daemon->lost, 1);
    pause_after(daemon);
    if (!atomic_exchange(&daemon->warned, true))
        kiln__log_line(daemon->log, KILN_LOG_WARN, "the daemon at %s is not used: %s", daemon->socket,
                       why[0] != '\0' ? why : strerror(-fd));
    return -1;
}

/* Sends a frame, which it frees, and receives the answer, which the caller frees. */
static int exchange(int fd, kiln__text *frame, uint64_t until, kiln__message *answer)
{
    memset(answer, 0, sizeof(*answer));
    int error = error_of(kiln__channel_send(fd, frame, until));
    kiln__text_fini(frame);
    return error == 0 ? error_of(kiln__channel_receive(fd, KILN__DAEMON_LIMIT, until, answer)) : error;
}

static int ask_to_find(int fd, const kiln__key *key, uint32_t wait_ms, kiln__message *answer)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, KILN__DAEMON_FIND);
    kiln__daemon_put_key(&frame, key);
    return exchange(fd, &frame, deadline(wait_ms), answer);
}

static int ask_to_build(int fd, const kiln__unit *unit, uint32_t wait_ms, kiln__message *answer)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, KILN__DAEMON_BUILD);
    kiln__daemon_put_unit(&frame, unit);
    if (frame.length > KILN__DAEMON_LIMIT) {
        kiln__text_fini(&frame);
        return -EMSGSIZE;
    }
    return exchange(fd, &frame, deadline(wait_ms), answer);
}

/* Asks for the entry by its key, and then with the unit. 0, or the error of the connection. */
static int ask(int fd, const kiln__unit *unit, const kiln__key *key, uint32_t wait_ms, kiln__message *answer)
{
    int error = key != NULL ? ask_to_find(fd, key, wait_ms, answer) : 0;
    if (error != 0 || answer->frame.type == KILN__DAEMON_FOUND)
        return error;
    kiln__message_fini(answer);
    return ask_to_build(fd, unit, wait_ms, answer);
}

bool kiln__daemon_build(kiln__daemon *daemon, const kiln__unit *unit, const kiln__key *key,
                        const kiln__daemon_wait *wait)
{
    kiln__message answer = { 0 };
    int fd = kiln__cpu_now_ns() < atomic_load(&daemon->paused_to) ? -1 : reach(daemon);
    if (fd < 0)
        return false;
    wait->aside(wait->data, true);
    const int error = ask(fd, unit, key, wait->ms, &answer);
    wait->aside(wait->data, false);
    const bool found = error == 0 && answer.frame.type == KILN__DAEMON_FOUND;
    const bool answered = found || (error == 0 && answer.frame.type == KILN__DAEMON_FAILED);
    kiln__message_fini(&answer);
    close(fd);
    if (answered) {
        atomic_fetch_add(found ? &daemon->found : &daemon->failures, 1);
        atomic_store(&daemon->pause_ns, 0);
    } else if (error != -EMSGSIZE) {
        atomic_fetch_add(&daemon->lost, 1);
        pause_after(daemon);
        kiln__log_line(daemon->log, KILN_LOG_WARN, "the daemon did not answer for %s (%s): compiling here", unit->spec,
                       error != 0 ? strerror(-error) : "an answer that is none");
    }
    return found;
}

int kiln__daemon_probe(const char *socket, const char **why)
{
    const char *directory, *reason = "";
    kiln__message hello;
    int fd = greet(socket, deadline(GREETING_MS), &hello, &directory, &reason);
    kiln__message_fini(&hello);
    if (why != NULL)
        *why = reason;
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

/* Connects and sends a frame without fields. The answer is the caller's, also on failure. */
static int ask_apart(const char *socket, kiln__daemon_type type, uint32_t wait_ms, kiln__message *answer,
                     const char **why)
{
    const char *directory;
    kiln__message hello;
    kiln__text frame = { 0 };
    *why = "";
    *answer = (kiln__message){ 0 };
    const uint64_t until = deadline(wait_ms);
    int fd = greet(socket, until, &hello, &directory, why);
    kiln__message_fini(&hello);
    if (fd < 0)
        return fd;
    kiln__frame_begin(&frame, (uint16_t)type);
    const int error = exchange(fd, &frame, until, answer);
    close(fd);
    return error;
}

int kiln__daemon_ask_figures(const char *socket, char **out, const char **why)
{
    const char *json = NULL;
    kiln__message answer;
    int error = ask_apart(socket, KILN__DAEMON_ASK_FIGURES, FIGURES_MS, &answer, why);
    if (error == 0 && (answer.frame.type != KILN__DAEMON_FIGURES ||
                       (json = kiln__frame_get_text(&answer.frame, KILN__DAEMON_TAG_JSON)) == NULL))
        error = -EPROTO;
    if (error == 0 && (*out = kiln__strdup(json)) == NULL)
        error = -ENOMEM;
    kiln__message_fini(&answer);
    return error;
}

int kiln__daemon_stop(const char *socket, uint32_t wait_ms, const char **why)
{
    kiln__message answer;
    const int error = ask_apart(socket, KILN__DAEMON_STOP, wait_ms, &answer, why);
    kiln__message_fini(&answer);
    return error == -ECONNRESET ? 0 : error == 0 ? -EPROTO : error;
}
