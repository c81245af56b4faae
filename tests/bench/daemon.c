/* bench_daemon [CONNECTIONS [REQUESTS]]: what a question costs that the daemon answers from memory.
 *
 * Starts a daemon in a process of its own, on a store of 64 entries under TMPDIR. One thread of this process is all
 * hosts. Prints
 *   - the round trip of one host, in turn with that of an echo server on a socket of the same kind, which is the least
 *     that it can take;
 *   - CONNECTIONS (1,000) hosts that ask REQUESTS (1,000) times each, as fast as they are answered: requests a second,
 *     and the daemon's memory before and after;
 *   - the same hosts at 10,000 requests a second in all, whatever is answered: the time from when each was due;
 *   - 50 hosts as fast as they are answered, alone and beside 500 that send a byte of a request each second.
 * Every answer is checked. Exits 1 at a wrong one. */
#include "base/alloc.h"
#include "base/log.h"
#include "jit/daemon/protocol.h"
#include "os/cpu.h"
#include "os/file.h"
#include "store/disk.h"
#include "support/blobs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES = 64, GOOD = 50, SLOW = 500, RATE = 10000, SECONDS = 5, TRIPS = 40000, TURN = 2000 };

static const char toolchain[] = "nvrtc-13.0.88-1";
static char directory[256], socket_path[300];
static kiln__text requests[ENTRIES];

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_daemon: %s (%s)\n", what, strerror(errno));
    exit(1);
}

/* ---- The daemon and its store */

static void fill_store(void)
{
    uint8_t payload[2048];
    char text[32], problem[256];
    kiln__store_counters counters = { 0 };
    const kiln__log log = { 0 };
    kiln__store *store = kiln__disk_store_open(directory, &log, &counters, problem, sizeof(problem));
    check(store != NULL, problem);
    for (int i = 0; i < ENTRIES; i++) {
        memset(payload, i + 1, sizeof(payload));
        snprintf(text, sizeof(text), "key %d", i);
        kiln__blob *blob = kiln_test_blob(text, toolchain, payload, sizeof(payload));
        store->vtable->put(store, blob, false);
        kiln__blob_release(blob);
        const kiln__key key = kiln_test_key(text, toolchain);
        kiln__frame_begin(&requests[i], KILN__DAEMON_FIND);
        kiln__daemon_put_key(&requests[i], &key);
    }
    store->vtable->close(store);
}

static void tell(void *data, const char *socket)
{
    (void)socket;
    check(write(*(int *)data, "", 1) == 1, "pipe");
}

static pid_t start_daemon(void)
{
    int ends[2];
    char byte;
    check(pipe(ends) == 0, "pipe");
    const pid_t daemon = fork();
    if (daemon == 0) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln_options options = KILN_INIT(kiln_options);
        options.cache_dir = directory;
        options.socket = socket_path;
        kiln_serve_options how = KILN_INIT(kiln_serve_options);
        how.service = &options;
        how.ready = tell;
        how.data = &ends[1];
        const kiln_status status = kiln_serve(&how, &report);
        if (status != KILN_OK)
            fprintf(stderr, "bench_daemon: %s\n", report.message);
        exit(status != KILN_OK);
    }
    close(ends[1]);
    check(read(ends[0], &byte, 1) == 1, "the daemon does not start");
    close(ends[0]);
    return daemon;
}

static uint64_t resident_kib(pid_t pid)
{
    char path[64];
    unsigned long long all, resident = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    check(file != NULL && fscanf(file, "%llu %llu", &all, &resident) == 2, path);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* ---- Hosts */

typedef struct host {
    int fd;
    unsigned turn; /* of the request that is under way */
    bool busy;
    uint64_t due_ns; /* when it was due, or sent */
} host;

static int connect_host(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    kiln__message hello;
    const char *at;
    kiln__text_copy(address.sun_path, sizeof(address.sun_path), socket_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    check(kiln__channel_receive(fd, KILN__DAEMON_LIMIT, kiln__cpu_now_ns() + 5000000000u, &hello) ==
                  KILN__CHANNEL_DONE &&
              kiln__daemon_get_hello(&hello.frame, &at),
          "greeting");
    kiln__message_fini(&hello);
    return fd;
}

static void ask(host *one)
{
    const kiln__text *request = &requests[one->turn++ % ENTRIES];
    one->busy = true;
    check(send(one->fd, request->data, request->length, MSG_NOSIGNAL) == (ssize_t)request->length, "send");
}

/* Answers are small, so that each comes whole. */
static void take_answer(host *one)
{
    uint8_t bytes[256];
    kiln__frame frame;
    uint32_t origin;
    const ssize_t length = recv(one->fd, bytes, sizeof(bytes), 0);
    one->busy = false;
    check(length > 0 && kiln__frame_decode(&frame, bytes, (size_t)length) == KILN__FRAME_GOOD &&
              frame.type == KILN__DAEMON_FOUND && kiln__frame_get_u32(&frame, KILN__DAEMON_TAG_ORIGIN, &origin),
          "an answer is wrong");
}

static host *connect_hosts(int count, int poll)
{
    host *hosts = kiln__calloc((size_t)count, sizeof(*hosts));
    check(hosts != NULL, "memory");
    for (int i = 0; i < count; i++) {
        hosts[i] = (host){ .fd = connect_host(), .turn = (unsigned)i };
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &hosts[i] };
        check(epoll_ctl(poll, EPOLL_CTL_ADD, hosts[i].fd, &event) == 0, "epoll");
    }
    return hosts;
}

static void disconnect(host *hosts, int count)
{
    for (int i = 0; i < count; i++)
        close(hosts[i].fd);
    kiln__free(hosts);
}

/* ---- Measuring */

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double at_us(const uint64_t *sorted, size_t count, double share)
{
    return (double)sorted[(size_t)(share * (double)(count - 1))] / 1e3;
}

/* Hosts ask as often as they are answered. Fills `ns`, if not NULL, with the times of all requests. Returns seconds. */
static double ask_closed(host *hosts, int count, unsigned each, int poll, uint64_t *ns)
{
    struct epoll_event events[256];
    const uint64_t total = (uint64_t)count * each, start = kiln__cpu_now_ns();
    uint64_t done = 0;
    unsigned *left = kiln__calloc((size_t)count, sizeof(*left));
    check(left != NULL, "memory");
    for (int i = 0; i < count; i++) {
        left[i] = each;
        hosts[i].due_ns = kiln__cpu_now_ns();
        ask(&hosts[i]);
    }
    while (done < total) {
        const int ready = epoll_wait(poll, events, 256, 10000);
        check(ready > 0, "the daemon does not answer");
        for (int k = 0; k < ready; k++) {
            host *one = events[k].data.ptr;
            take_answer(one);
            if (ns != NULL) {
                const uint64_t now = kiln__cpu_now_ns();
                ns[done] = now - one->due_ns;
                one->due_ns = now;
            }
            done++;
            if (--left[one - hosts] > 0)
                ask(one);
        }
    }
    kiln__free(left);
    return (double)(kiln__cpu_now_ns() - start) / 1e9;
}

static void measure_closed(int count, unsigned each, pid_t daemon)
{
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    host *hosts = connect_hosts(count, poll);
    ask_closed(hosts, count, 10, poll, NULL);
    const uint64_t before = resident_kib(daemon);
    const double seconds = ask_closed(hosts, count, each, poll, NULL);
    const uint64_t after = resident_kib(daemon);
    printf("closed loop, %d hosts x %u: %.0f requests/s, the daemon has %" PRIu64 " KiB before and %" PRIu64
           " after (%+.2f%%)\n",
           count, each, (double)count * each / seconds, before, after, 100.0 * ((double)after / (double)before - 1));
    disconnect(hosts, count);
    close(poll);
}

/* Requests are due at equal distances, each on the next host. One that is due while its host waits is sent when that
 * is answered, and its time counts from when it was due. */
static void measure_open(int count)
{
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    host *hosts = connect_hosts(count, poll);
    struct epoll_event events[256];
    const size_t total = (size_t)RATE * SECONDS;
    uint64_t *ns = kiln__calloc(total, sizeof(*ns));
    size_t sent = 0, done = 0, late = 0;
    check(ns != NULL, "memory");
    const uint64_t start = kiln__cpu_now_ns();
    while (done < total) {
        const uint64_t now = kiln__cpu_now_ns(), due = start + sent * (1000000000u / RATE);
        host *next = &hosts[sent % (size_t)count];
        if (sent < total && due <= now && !next->busy) {
            next->due_ns = due;
            ask(next);
            sent++;
            continue;
        }
        late += sent < total && due <= now;
        const int ready = epoll_wait(poll, events, 256, 0);
        for (int k = 0; k < ready; k++) {
            host *one = events[k].data.ptr;
            take_answer(one);
            ns[done++] = kiln__cpu_now_ns() - one->due_ns;
        }
    }
    qsort(ns, total, sizeof(*ns), by_value);
    printf(
        "open loop, %d hosts, %d requests/s for %d s: half within %.0f us, 99%% within %.0f us, all within %.0f us%s\n",
        count, RATE, SECONDS, at_us(ns, total, 0.5), at_us(ns, total, 0.99), at_us(ns, total, 1),
        late > total / 100 ? " (hosts waited for answers)" : "");
    kiln__free(ns);
    disconnect(hosts, count);
    close(poll);
}

static double good_p99(int poll, host *hosts)
{
    enum { EACH = 2000 };
    uint64_t *ns = kiln__calloc((size_t)GOOD * EACH, sizeof(*ns));
    check(ns != NULL, "memory");
    ask_closed(hosts, GOOD, EACH, poll, ns);
    qsort(ns, (size_t)GOOD * EACH, sizeof(*ns), by_value);
    const double us = at_us(ns, (size_t)GOOD * EACH, 0.99);
    kiln__free(ns);
    return us;
}

/* A process that sends a byte a second on many connections, until it is killed. */
static pid_t start_slow_hosts(void)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    int fds[SLOW];
    for (int i = 0; i < SLOW; i++)
        fds[i] = connect_host();
    for (size_t at = 0;; at = (at + 1) % 8) { /* never a whole header */
        for (int i = 0; i < SLOW; i++)
            if (send(fds[i], requests[0].data + at, 1, MSG_NOSIGNAL) != 1) { /* closed: it was too slow */
                close(fds[i]);
                fds[i] = connect_host();
            }
        sleep(1);
    }
}

static void measure_slow(void)
{
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    host *hosts = connect_hosts(GOOD, poll);
    good_p99(poll, hosts);
    const double alone = good_p99(poll, hosts);
    const pid_t slow = start_slow_hosts();
    sleep(2);
    const double beside = good_p99(poll, hosts);
    kill(slow, SIGKILL);
    waitpid(slow, NULL, 0);
    printf("%d hosts: 99%% within %.0f us alone, %.0f us beside %d that send a byte a second (%.2f)\n", GOOD, alone,
           beside, SLOW, beside / alone);
    disconnect(hosts, GOOD);
    close(poll);
}

/* ---- One host */

static void echo(int fd)
{
    char bytes[256];
    for (ssize_t length; (length = recv(fd, bytes, sizeof(bytes), 0)) > 0;)
        check(send(fd, bytes, (size_t)length < 22 ? (size_t)length : 22, MSG_NOSIGNAL) > 0, "echo");
    _exit(0);
}

static uint64_t trip(int fd, const kiln__text *request)
{
    char bytes[256];
    const uint64_t start = kiln__cpu_now_ns();
    check(send(fd, request->data, request->length, MSG_NOSIGNAL) == (ssize_t)request->length, "send");
    check(recv(fd, bytes, sizeof(bytes), 0) > 0, "recv");
    return kiln__cpu_now_ns() - start;
}

static void measure_one(void)
{
    static uint64_t ns[2][TRIPS / 2];
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    const pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        echo(pair[1]);
    }
    close(pair[1]);
    const int fd = connect_host();
    for (int i = 0; i < TRIPS; i++) /* in turns that are long enough for the scheduler to settle */
        ns[i / TURN % 2][i / (2 * TURN) * TURN + i % TURN] =
            trip(i / TURN % 2 == 0 ? fd : pair[0], &requests[i % ENTRIES]);
    close(fd);
    close(pair[0]);
    waitpid(child, NULL, 0);
    for (int way = 0; way < 2; way++) {
        qsort(ns[way], TRIPS / 2, sizeof(**ns), by_value);
        printf("round trip of one host, %s: half within %.1f us, 99%% within %.1f us\n", way == 0 ? "daemon" : "echo",
               at_us(ns[way], TRIPS / 2, 0.5), at_us(ns[way], TRIPS / 2, 0.99));
    }
}

int main(int count, char **arguments)
{
    const int connections = count > 1 ? atoi(arguments[1]) : 1000;
    const unsigned each = count > 2 ? (unsigned)atoi(arguments[2]) : 1000;
    struct rlimit limit;
    check(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    check(kiln__file_make_temporary(directory, sizeof(directory)) == 0, "a temporary directory");
    snprintf(socket_path, sizeof(socket_path), "%s/daemon/socket", directory);
    fill_store();
    fflush(stdout);
    const pid_t daemon = start_daemon();
    measure_one();
    measure_closed(connections, each, daemon);
    measure_open(connections);
    measure_slow();
    int status = 0;
    kill(daemon, SIGTERM);
    check(waitpid(daemon, &status, 0) == daemon && status == 0, "the daemon ended badly");
    kiln__file_remove_directory(directory);
    return 0;
}
