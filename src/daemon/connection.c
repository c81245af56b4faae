/* Hosts that are connected: their frames, checked before anything is done for them, and their answers. A connection is
 * read no further while a request of it is worked on or its answer is not written: a host that does not read is no
 * burden. */
#include "daemon/server.h"

#include "os/cpu.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KEPT_BYTES = 4096,     /* of a connection's buffer between two frames */
    CONNECTIONS_MAX = 8192 /* further ones are closed at once */
};
#define HELD_MAX ((uint64_t)256 << 20) /* of unfinished frames of all connections */
#define SLOW_NS  ((uint64_t)10000000000)
#define TOLD_NS  ((uint64_t)1000000000)

/* ---- The end */

static void free_connection(uv_handle_t *handle)
{
    kiln__connection *connection = handle->data;
    kiln__text_fini(&connection->bytes);
    kiln__free(connection->rest);
    kiln__free(connection);
}

void kiln__connection_close(kiln__connection *connection)
{
    kiln__server *server = connection->server;
    if (connection->closing)
        return;
    connection->closing = true;
    kiln__flight_leave(connection);
    server->held_bytes -= connection->bytes.length;
    server->connection_count--;
    DL_DELETE(server->connections, connection);
    uv_close((uv_handle_t *)&connection->pipe, free_connection);
}

int kiln__connection_duplicate(const kiln__connection *connection)
{
    uv_os_fd_t fd;
    return uv_fileno((const uv_handle_t *)&connection->pipe, &fd) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static void refuse(kiln__connection *connection, uint64_t *counter, const char *why)
{
    kiln__server *server = connection->server;
    ++*counter;
    if (server->now_ns - server->told_ns > TOLD_NS) { /* a crowd of them does not fill the log */
        server->told_ns = server->now_ns;
        kiln__log_line(&server->log, KILN_LOG_WARN, "a connection is closed: %s", why);
    }
    kiln__connection_close(connection);
}

/* ---- Answers */

static void written(uv_write_t *write, int status)
{
    kiln__connection *connection = write->data;
    kiln__free(connection->rest);
    connection->rest = NULL;
    connection->writing = false;
    if (connection->closing)
        return;
    if (status != 0)
        kiln__connection_close(connection);
    else
        kiln__connection_go_on(connection);
}

/* Writes the rest of a frame when the host reads. */
static void write_later(kiln__connection *connection, const char *bytes, size_t length)
{
    connection->rest = kiln__memdup(bytes, length);
    if (connection->rest == NULL) {
        kiln__connection_close(connection);
        return;
    }
    const uv_buf_t buffer = uv_buf_init(connection->rest, (unsigned)length);
    connection->write.data = connection;
    connection->since_ns = connection->server->now_ns;
    connection->writing = uv_write(&connection->write, (uv_stream_t *)&connection->pipe, &buffer, 1, written) == 0;
    if (!connection->writing)
        kiln__connection_close(connection);
}

static void write_frame(kiln__connection *connection, const kiln__text *frame)
{
    if (frame->failed) {
        kiln__connection_close(connection);
        return;
    }
    const uv_buf_t buffer = uv_buf_init(frame->data, (unsigned)frame->length);
    const int sent = uv_try_write((uv_stream_t *)&connection->pipe, &buffer, 1);
    const size_t done = sent > 0 ? (size_t)sent : 0;
    if (sent < 0 && sent != UV_EAGAIN)
        kiln__connection_close(connection);
    else if (done < frame->length)
        write_later(connection, frame->data + done, frame->length - done);
}

void kiln__connection_answer(kiln__connection *connection)
{
    connection->asked_ns = 0;
    write_frame(connection, &connection->server->answer);
}

/* ---- Requests */

static void handle(kiln__connection *connection, const char *bytes, size_t length)
{
    kiln__server *server = connection->server;
    kiln__frame frame;
    kiln__key key;
    kiln__unit unit = { 0 };
    bool good = kiln__frame_decode(&frame, bytes, length) == KILN__FRAME_GOOD;
    server->figures.requests++;
    connection->asked_ns = server->now_ns;
    if (good && frame.type == KILN__DAEMON_ASK_FIGURES) {
        kiln__server_answer_figures(connection);
        return;
    }
    server->active_ns = server->now_ns; /* figures alone keep no daemon */
    if (good && frame.type == KILN__DAEMON_STOP) {
        connection->stops = true;
        kiln__server_drain(server, "told to by a host");
        return;
    }
    if (good && frame.type == KILN__DAEMON_FIND)
        good = kiln__daemon_get_key(&frame, &key);
    else if (good && frame.type == KILN__DAEMON_BUILD) {
        good = kiln__daemon_get_unit(&frame, &unit);
        kiln__unit_fini_source(&unit);
    } else
        good = false;
    const kiln__lane lane = frame.type == KILN__DAEMON_FIND ? KILN__LANE_QUICK : KILN__LANE_COMPILE;
    if (!good)
        refuse(connection, &server->figures.refused_frames, "its frame is no request");
    else if (!(lane == KILN__LANE_QUICK && kiln__flight_answer_at_once(connection, &key)) &&
             !kiln__flight_board(connection, lane, bytes, length))
        kiln__connection_close(connection);
}

/* The length of the frame in front; 0: its header is not complete. False: it is no frame. */
static bool measure(const char *bytes, size_t length, size_t *out)
{
    uint32_t body = 0;
    *out = 0;
    if (length < KILN__FRAME_HEADER_SIZE)
        return true;
    if (kiln__frame_check_header((const uint8_t *)bytes, KILN__DAEMON_LIMIT, &body) != KILN__FRAME_GOOD)
        return false;
    *out = KILN__FRAME_HEADER_SIZE + (size_t)body;
    return true;
}

static bool is_waiting(const kiln__connection *connection)
{
    return connection->on != NULL || connection->writing;
}

/* Handles complete frames in front of some bytes. Returns how many bytes that were. */
static size_t handle_frames(kiln__connection *connection, const char *bytes, size_t length)
{
    size_t at = 0, whole;
    while (!connection->closing && !is_waiting(connection)) {
        if (!measure(bytes + at, length - at, &whole)) {
            refuse(connection, &connection->server->figures.refused_frames, "its bytes are no frame");
            break;
        }
        if (whole == 0 || length - at < whole)
            break;
        at += whole;
        handle(connection, bytes + at - whole, whole);
    }
    return at;
}

/* Keeps what is no complete frame, or waits behind one. */
static void keep(kiln__connection *connection, const char *bytes, size_t length)
{
    kiln__server *server = connection->server;
    if (connection->closing || length == 0)
        return;
    if (connection->bytes.length == 0)
        connection->since_ns = server->now_ns;
    const size_t before = connection->bytes.length;
    kiln__text_append_bytes(&connection->bytes, bytes, length);
    server->held_bytes += connection->bytes.length - before;
    if (connection->bytes.failed || server->held_bytes > HELD_MAX)
        refuse(connection, &server->figures.refused_crowd, "there is no room for its frame");
}

/* Drops what is handled of the bytes that were kept. */
static void drop(kiln__connection *connection, size_t count)
{
    kiln__text *bytes = &connection->bytes;
    if (connection->closing || count == 0)
        return;
    connection->server->held_bytes -= count;
    bytes->length -= count;
    memmove(bytes->data, bytes->data + count, bytes->length);
    connection->since_ns = connection->server->now_ns;
    if (bytes->length == 0 && bytes->capacity > KEPT_BYTES)
        kiln__text_fini(bytes);
}

static void take(kiln__connection *connection, const char *bytes, size_t length)
{
    size_t done = 0;
    if (connection->bytes.length == 0)
        done = handle_frames(connection, bytes, length);
    keep(connection, bytes + done, length - done);
    if (done == 0 && !connection->closing)
        drop(connection, handle_frames(connection, connection->bytes.data, connection->bytes.length));
}

/* ---- Reading */

static void give_scratch(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    kiln__connection *connection = handle->data;
    (void)wanted;
    *out = uv_buf_init(connection->server->scratch, sizeof(connection->server->scratch));
}

static void arrived(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    kiln__connection *connection = stream->data;
    connection->server->now_ns = kiln__cpu_now_ns();
    if (count < 0)
        kiln__connection_close(connection);
    else
        take(connection, buffer->base, (size_t)count);
    if (!connection->closing && is_waiting(connection) && connection->reading) {
        uv_read_stop(stream);
        connection->reading = false;
    }
}

void kiln__connection_go_on(kiln__connection *connection)
{
    connection->since_ns = connection->server->now_ns;
    if (!connection->closing && !is_waiting(connection) && connection->bytes.length > 0)
        drop(connection, handle_frames(connection, connection->bytes.data, connection->bytes.length));
    if (connection->closing || is_waiting(connection) || connection->reading)
        return;
    connection->reading = uv_read_start((uv_stream_t *)&connection->pipe, give_scratch, arrived) == 0;
    if (!connection->reading)
        kiln__connection_close(connection);
}

static bool is_own_user(const uv_pipe_t *pipe)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t size = sizeof(peer);
    uv_os_fd_t fd;
    return uv_fileno((const uv_handle_t *)pipe, &fd) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

void kiln__connection_accept(uv_stream_t *listener, int status)
{
    kiln__server *server = listener->data;
    kiln__connection *connection = kiln__calloc(1, sizeof(*connection));
    const bool lacking = connection == NULL;
    if (lacking) { /* it must be taken, or the loop takes no other */
        connection = server->spare;
        server->spare = NULL;
    }
    server->waits_for_spare = status == 0 && connection == NULL;
    if (connection == NULL || status != 0) {
        kiln__free(connection);
        return;
    }
    connection->server = server;
    connection->pipe.data = connection;
    uv_pipe_init(&server->loop, &connection->pipe, 0);
    server->now_ns = kiln__cpu_now_ns();
    server->figures.connections++;
    server->connection_count++;
    DL_APPEND(server->connections, connection);
    if (uv_accept(listener, (uv_stream_t *)&connection->pipe) != 0)
        kiln__connection_close(connection);
    else if (!is_own_user(&connection->pipe))
        refuse(connection, &server->figures.refused_users, "it is another user's");
    else if (lacking || server->connection_count > CONNECTIONS_MAX)
        refuse(connection, &server->figures.refused_crowd, "there are too many");
    else
        write_frame(connection, &server->hello);
    kiln__connection_go_on(connection);
}

void kiln__connections_sweep(kiln__server *server, uint64_t now)
{
    kiln__connection *connection, *next;
    DL_FOREACH_SAFE (server->connections, connection, next) {
        const bool moves = connection->writing || (connection->on == NULL && connection->bytes.length > 0);
        if (moves && now - connection->since_ns > SLOW_NS)
            refuse(connection, &server->figures.refused_slow, "its frame takes too long");
        else if (server->draining && !is_waiting(connection) && !connection->stops)
            kiln__connection_close(connection);
    }
}
