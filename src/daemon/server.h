/* The daemon: one thread with a libuv loop, which talks to hosts, and the pool of a service, which looks things up and
 * compiles. Everything here belongs to the loop's thread, but for a flight while its job runs.
 *
 *     connection.c   hosts, their frames and answers
 *     flight.c       requests that need the pool: equal ones share one
 *     server.c       start, signals, the clock, the end */
#ifndef KILN_DAEMON_SERVER_H
#define KILN_DAEMON_SERVER_H

#include "daemon/figures.h"
#include "daemon/socket.h"
#include "jit/daemon/protocol.h"
#include "service/service.h"
#include <limits.h>
#include <uv.h>

/* A service, and the flights that use it: a reload takes another one for later flights. */
typedef struct kiln__epoch {
    kiln_service *service;
    uint64_t users; /* flights, and the server while it is the current one */
    kiln__job learn;
    char directory[PATH_MAX]; /* of its store, absolute */
} kiln__epoch;

struct kiln__flown;

/* A host that is connected. */
typedef struct kiln__connection {
    struct kiln__server *server;
    uv_pipe_t pipe;
    uv_write_t write; /* of the rest of an answer */
    char *rest;
    kiln__text bytes;       /* of a frame that is not complete, and of those behind it */
    uint64_t since_ns;      /* when that frame, or the writing of the rest, began */
    uint64_t asked_ns;      /* when the request came that is not answered yet */
    struct kiln__flown *on; /* the flight that it waits for */
    bool reading, writing, closing;
    bool stops;                                           /* it has asked for the daemon's end, and waits for it */
    struct kiln__connection *prev, *next;                 /* of the server's */
    struct kiln__connection *prev_waiting, *next_waiting; /* of the flight's */
} kiln__connection;

/* A request that a thread of the pool works on. */
typedef struct kiln__flown {
    kiln__job job;
    struct kiln__server *server;
    kiln__epoch *epoch;
    uint8_t id[KILN__DIGEST_SIZE]; /* of the request's bytes */
    UT_hash_handle hh;
    kiln__text request;
    kiln__connection *waiting;
    /* The job's, and the loop's again once it is done. */
    kiln_status status;
    kiln_report report;
    bool found;
    kiln_origin origin;
    uint64_t compile_ns;
    kiln__blob *blob;
    struct kiln__flown *next_done;
} kiln__flown;

typedef struct kiln__server {
    uv_loop_t loop;
    uv_pipe_t listener;
    uv_signal_t signals[3];
    uv_timer_t tick;
    uv_async_t landed;
    kiln__socket socket;
    kiln_options options; /* of its services */
    kiln__epoch *epoch;
    kiln__log log;
    kiln__connection *connections;
    kiln__connection *spare;               /* for one that comes when memory is out */
    uint64_t connection_count, held_bytes; /* of unfinished frames */
    kiln__flown *flights;
    pthread_mutex_t done_lock;
    kiln__flown *done; /* flights that have landed; guarded by done_lock */
    kiln__figures figures;
    kiln__text hello, answer; /* the greeting; the answer that is being made */
    kiln__text ends;          /* descriptors of hosts that wait for the end */
    uint64_t idle_ns;
    uint64_t now_ns;    /* when the loop last had something to do */
    uint64_t active_ns; /* when there was last a request other than for figures */
    uint64_t told_ns;   /* when the log last had a refusal */
    bool draining, closed;
    bool waits_for_spare;    /* a connection is not accepted, for want of memory */
    char scratch[64 * 1024]; /* what was read just now */
} kiln__server;

/* ---- connection.c */

/* The callback of the listener. */
void kiln__connection_accept(uv_stream_t *listener, int status);

/* Answers a request with the frame in server->answer. */
void kiln__connection_answer(kiln__connection *connection);

/* Goes on after an answer, with the bytes that were kept and then the host's further ones. */
void kiln__connection_go_on(kiln__connection *connection);
void kiln__connection_close(kiln__connection *connection);

/* Another descriptor of its stream, which the caller closes; -1: there is none. */
int kiln__connection_duplicate(const kiln__connection *connection);

/* Closes those whose frame takes too long; while draining, all that wait for nothing. */
void kiln__connections_sweep(kiln__server *server, uint64_t now);

/* ---- flight.c */

/* Answers a FIND from memory. False: it needs a flight. */
bool kiln__flight_answer_at_once(kiln__connection *connection, const kiln__key *key);

/* Lets a connection wait for its request, on the flight of equal ones if there is one. False: out of memory. */
bool kiln__flight_board(kiln__connection *connection, kiln__lane lane, const void *request, size_t length);

/* A connection that closes waits no longer. */
void kiln__flight_leave(kiln__connection *connection);

/* The callback of the pool's signal. */
void kiln__flights_landed(uv_async_t *async);

/* ---- server.c */

void kiln__epoch_release(kiln__epoch *epoch);

/* No new connections; what was asked is answered. Then the loop ends. */
void kiln__server_drain(kiln__server *server, const char *why);
void kiln__server_answer_figures(kiln__connection *connection);

/* Listens until it is told to stop, or nothing happened for idle_s seconds (0: never). */
kiln_status kiln__serve(const kiln_options *options, uint32_t idle_s, void (*ready)(void *data, const char *socket),
                        void *data, kiln_report *report);

#endif
