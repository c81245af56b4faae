/* The daemon from its start to its end: the socket, the services, signals, the clock. */
#include "daemon/server.h"

#include "os/cpu.h"
#include "os/syscalls.h"
#include "store/disk.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TICK_MS 1000

/* ---- Services */

/* Finds out which compiler there is, so that no host has to open it for that. */
static void learn_toolchain(kiln__job *job, bool stopped)
{
    kiln__epoch *epoch = (kiln__epoch *)((char *)job - offsetof(kiln__epoch, learn));
    kiln__builder *builder = &epoch->service->builders[KILN__BACKEND_CUDA];
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    if (!stopped && kiln__toolchains_get(&builder->toolchains, &toolchain, NULL) == KILN_OK &&
        (toolchain.id[0] != '\0' || compiler->vtable->identify(compiler, &toolchain, NULL) == KILN_OK))
        kiln__toolchains_learn(&builder->toolchains, toolchain.id);
}

static kiln__epoch *open_epoch(const kiln__server *server, kiln_status *status, kiln_report *report)
{
    kiln__epoch *epoch = kiln__calloc(1, sizeof(*epoch));
    kiln_options options = server->options;
    *status = epoch != NULL ? kiln__service_open(&epoch->service, &options, report)
                            : kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (*status == KILN_OK)
        *status = kiln__service_need_disk(epoch->service, report);
    if (*status != KILN_OK) {
        kiln__service_close(epoch != NULL ? epoch->service : NULL);
        kiln__free(epoch);
        return NULL;
    }
    const int made = kiln__disk_store_open_lock(epoch->service->disk); /* hosts compare directories */
    if (made >= 0)
        kiln__sys_close(made);
    if (realpath(epoch->service->cache_dir, epoch->directory) == NULL) {
        *status = kiln__fail(report, KILN_EIO, KILN__STAGE_OPEN, errno, "the store in %s cannot be made: %s",
                             epoch->service->cache_dir, strerror(errno));
        kiln__service_close(epoch->service);
        kiln__free(epoch);
        return NULL;
    }
    epoch->users = 1;
    epoch->service->pool.gives_way = false; /* hosts wait for it */
    epoch->learn = (kiln__job){ .run = learn_toolchain, .lane = KILN__LANE_COMPILE };
    kiln__workpool_submit(&epoch->service->pool, &epoch->learn);
    return epoch;
}

void kiln__epoch_release(kiln__epoch *epoch)
{
    if (epoch == NULL || --epoch->users > 0)
        return;
    kiln__service_close(epoch->service);
    kiln__free(epoch);
}

/* Later requests have a service that read secrets, libraries and directories anew. */
static void reload(kiln__server *server)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status;
    kiln__epoch *next = open_epoch(server, &status, &report), *before = server->epoch;
    if (next != NULL) {
        kiln__text_fini(&server->hello);
        kiln__daemon_put_hello(&server->hello, next->directory);
        server->epoch = next;
        server->figures.reloads++;
        kiln__epoch_release(before);
    }
    kiln__log_line(&server->log, next != NULL ? KILN_LOG_INFO : KILN_LOG_ERROR, "reload: %s",
                   next != NULL ? "done" : report.message);
    kiln_report_clear(&report);
}

/* ---- The end */

static void close_handle(uv_handle_t *handle, void *data)
{
    (void)data;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Keeps the stream of a host that waits for the end beyond the loop: it ends once the lock is given back. */
static void keep_end(kiln__server *server, const kiln__connection *connection)
{
    const int kept = kiln__connection_duplicate(connection);
    if (kept >= 0)
        kiln__text_append_bytes(&server->ends, &kept, sizeof(kept));
    if (kept >= 0 && server->ends.failed)
        kiln__sys_close(kept);
}

static void close_ends(kiln__server *server)
{
    int fd;
    for (size_t at = 0; at + sizeof(fd) <= server->ends.length; at += sizeof(fd)) {
        memcpy(&fd, server->ends.data + at, sizeof(fd));
        kiln__sys_close(fd);
    }
    kiln__text_fini(&server->ends);
}

/* Ends the loop once nothing is under way any more. */
static void end_if_drained(kiln__server *server)
{
    kiln__connection *connection, *next;
    bool busy = !server->draining || server->closed || server->flights != NULL;
    DL_FOREACH (server->connections, connection)
        busy = busy || !connection->stops;
    if (busy)
        return;
    server->closed = true;
    DL_FOREACH_SAFE (server->connections, connection, next) {
        keep_end(server, connection);
        kiln__connection_close(connection);
    }
    uv_walk(&server->loop, close_handle, NULL);
}

void kiln__server_drain(kiln__server *server, const char *why)
{
    if (server->draining)
        return;
    kiln__log_line(&server->log, KILN_LOG_INFO, "ending: %s", why);
    server->draining = true;
    uv_close((uv_handle_t *)&server->listener, NULL);
    uv_async_send(&server->landed); /* the rest is done from there, where no connection is on the stack */
}

static void on_signal(uv_signal_t *handle, int number)
{
    kiln__server *server = handle->data;
    if (number == SIGHUP)
        reload(server);
    else
        kiln__server_drain(server, "told to by a signal");
}

static void on_tick(uv_timer_t *timer)
{
    kiln__server *server = timer->data;
    const uint64_t now = kiln__cpu_now_ns();
    kiln__connections_sweep(server, now);
    if (server->flights != NULL)
        server->active_ns = now;
    if (server->spare == NULL)
        server->spare = kiln__calloc(1, sizeof(*server->spare));
    if (server->waits_for_spare && server->spare != NULL && !server->draining)
        kiln__connection_accept((uv_stream_t *)&server->listener, 0);
    if (server->idle_ns > 0 && now - server->active_ns > server->idle_ns)
        kiln__server_drain(server, "nothing was asked for long enough");
    end_if_drained(server);
}

static void on_landed(uv_async_t *async)
{
    kiln__flights_landed(async);
    kiln__server *server = async->data;
    if (server->draining)
        kiln__connections_sweep(server, kiln__cpu_now_ns());
    end_if_drained(server);
}

/* ---- Figures */

static uint64_t resident_bytes(void)
{
    unsigned long long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void kiln__server_answer_figures(kiln__connection *connection)
{
    kiln__server *server = connection->server;
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln__service_stats(server->epoch->service, &stats);
    const kiln__figures_now now = { .socket = server->socket.path,
                                    .directory = server->epoch->directory,
                                    .now_ns = kiln__cpu_now_ns(),
                                    .clients = server->connection_count,
                                    .running = HASH_COUNT(server->flights),
                                    .resident_bytes = resident_bytes(),
                                    .stats = &stats };
    char *json = kiln__figures_json(&server->figures, &now);
    kiln__text_fini(&server->answer);
    kiln__frame_begin(&server->answer, KILN__DAEMON_FIGURES);
    kiln__frame_put_text(&server->answer, KILN__DAEMON_TAG_JSON, json);
    kiln__free(json);
    kiln__connection_answer(connection);
}

/* ---- The start */

/* As many descriptors as this user may have: each host takes one. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static kiln_status fail_loop(int error, kiln_report *report)
{
    return kiln__fail(report, KILN_EIO, KILN__STAGE_OPEN, -error, "cannot start the daemon's loop: %s",
                      uv_strerror(error));
}

static int watch(kiln__server *server)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    int error = uv_pipe_init(&server->loop, &server->listener, 0);
    if (error == 0)
        error = uv_timer_init(&server->loop, &server->tick);
    if (error == 0)
        error = uv_async_init(&server->loop, &server->landed, on_landed);
    server->listener.data = server->tick.data = server->landed.data = server;
    for (int i = 0; i < 3 && error == 0; i++) {
        error = uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        if (error == 0)
            error = uv_signal_start(&server->signals[i], on_signal, numbers[i]);
    }
    if (error == 0)
        error = uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
    if (error == 0 && (error = uv_pipe_open(&server->listener, server->socket.fd)) == 0)
        server->socket.fd = -1; /* closed with the handle */
    if (error == 0)
        error = uv_listen((uv_stream_t *)&server->listener, 4096, kiln__connection_accept);
    return error;
}

/* The loop runs until all handles are closed. */
static kiln_status run(kiln__server *server, void (*ready)(void *data, const char *socket), void *data,
                       kiln_report *report)
{
    int error = uv_loop_init(&server->loop);
    if (error != 0)
        return fail_loop(error, report);
    error = watch(server);
    server->now_ns = server->active_ns = server->figures.started_ns = kiln__cpu_now_ns();
    if (error != 0)
        uv_walk(&server->loop, close_handle, NULL);
    else if (ready != NULL)
        ready(data, server->socket.path);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    return error == 0 ? KILN_OK : fail_loop(error, report);
}

static kiln_status serve(kiln__server *server, void (*ready)(void *data, const char *socket), void *data,
                         kiln_report *report)
{
    kiln_status status;
    struct sigaction ignored = { .sa_handler = SIG_IGN }, before;
    server->epoch = open_epoch(server, &status, report);
    if (status != KILN_OK)
        return status;
    kiln__daemon_put_hello(&server->hello, server->epoch->directory);
    if (server->hello.failed)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    raise_limit();
    sigaction(SIGPIPE, &ignored, &before);
    status = run(server, ready, data, report);
    sigaction(SIGPIPE, &before, NULL);
    return status;
}

kiln_status kiln__serve(const kiln_options *options, uint32_t idle_s, void (*ready)(void *data, const char *socket),
                        void *data, kiln_report *report)
{
    char *directory = NULL, *path = NULL;
    kiln_options complete = *options;
    kiln__server *server = kiln__calloc(1, sizeof(*server));
    kiln_status status = server != NULL ? kiln__options_complete(&complete, &directory, report)
                                        : kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (status == KILN_OK && (path = kiln__options_socket(&complete)) == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (status == KILN_OK)
        status = kiln__socket_open(&server->socket, path, report);
    if (status == KILN_OK) {
        server->options = *options;
        server->options.socket = ""; /* it asks no daemon */
        if (options->isolate == KILN_ISOLATE_DEFAULT)
            server->options.isolate = KILN_ISOLATE_ALWAYS; /* no compiler takes it along */
        server->idle_ns = (uint64_t)idle_s * 1000000000;
        kiln__log_init(&server->log, options->log, options->log_data, options->log_level);
        pthread_mutex_init(&server->done_lock, NULL);
        status = serve(server, ready, data, report);
        kiln__epoch_release(server->epoch);
        kiln__socket_close(&server->socket);
        close_ends(server);
        kiln__figures_fini(&server->figures);
        kiln__free(server->spare);
        kiln__text_fini(&server->hello);
        kiln__text_fini(&server->answer);
        pthread_mutex_destroy(&server->done_lock);
    }
    kiln__free(server);
    kiln__free(directory);
    kiln__free(path);
    return status;
}
