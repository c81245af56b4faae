/* The engine for Redis and Valkey: one connection, on which calls follow each other without waiting for answers.
 * hiredis connects, makes commands and reads answers. */
#include "remote/answers.h"
#include "remote/url.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

typedef struct redis_engine {
    kiln__engine base;
    kiln__url url;
    bool local; /* the path is that of a socket of this machine */
    redisContext *context;
    unsigned logins;                 /* answers to log_in that are to come before those of the calls */
    kiln__remote_list waiting, sent; /* in the order of their answers */
    uint64_t progress;               /* when bytes were last read or written */
    uint64_t step;                   /* when the last call was sent, or answered */
} redis_engine;

static const char *const schemes[] = { "redis", "valkey", "redis+unix", NULL };

/* SLOWEST: how many times answer_ms an answer may take that goes on coming. */
enum { USUAL_PORT = 6379, SLOWEST = 8 };

static bool init(kiln__engine *base, const char *url, char *problem, size_t room)
{
    redis_engine *engine = (redis_engine *)base;
    char *rest;
    if (!kiln__url_read(&engine->url, url, problem, room))
        return false;
    engine->local = strncmp(url, "redis+unix:", strlen("redis+unix:")) == 0;
    const char *path = engine->url.path;
    const bool numbered = path[0] == '\0' || path[1] == '\0' || (strtol(path + 1, &rest, 10) >= 0 && *rest == '\0');
    if (engine->local ? path[0] == '\0' || strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)
                      : engine->url.host[0] == '\0' || !numbered) {
        snprintf(problem, room, "expected redis://[[user]:password@]host[:port][/number] or redis+unix:///path");
        return false;
    }
    return true;
}

/* ---- The connection */

static void disconnect(redis_engine *engine, int result)
{
    if (engine->context != NULL)
        redisFree(engine->context);
    engine->context = NULL;
    engine->logins = 0;
    kiln__remote_request *first = kiln__remote_take_first(&engine->sent);
    if (first != NULL)
        kiln__remote_settle(&engine->base, first, result);
    if (result == -EMSGSIZE) /* of the first one's value, which says nothing of the others */
        result = -ECANCELED;
    kiln__remote_settle_all(&engine->base, &engine->sent, result);
}

/* Names the user and the database. The answers come first, and are checked as all others. */
static bool log_in(redis_engine *engine)
{
    const kiln__url *url = &engine->url;
    const char *with_user[] = { "AUTH", url->user, url->password }, *without[] = { "AUTH", url->password };
    const char *select[] = { "SELECT", url->path + 1 };
    bool good = true;
    if (url->password[0] != '\0') {
        good = url->user[0] != '\0' ? redisAppendCommandArgv(engine->context, 3, with_user, NULL) == REDIS_OK
                                    : redisAppendCommandArgv(engine->context, 2, without, NULL) == REDIS_OK;
        engine->logins++;
    }
    if (good && !engine->local && url->path[0] != '\0' && url->path[1] != '\0') {
        good = redisAppendCommandArgv(engine->context, 2, select, NULL) == REDIS_OK;
        engine->logins++;
    }
    return good;
}

static int connect_now(redis_engine *engine)
{
    const uint32_t ms = engine->base.options.connect_ms;
    const struct timeval wait = { ms / 1000, ms % 1000 * 1000 };
    const kiln__url *url = &engine->url;
    errno = 0;
    redisContext *context = engine->local
                                ? redisConnectUnixWithTimeout(url->path, wait)
                                : redisConnectWithTimeout(url->host, url->port != 0 ? url->port : USUAL_PORT, wait);
    int result = context == NULL ? -ENOMEM : context->err != 0 ? -EHOSTUNREACH : 0; /* a name that is not known */
    if (context != NULL && context->err == REDIS_ERR_IO)
        result = errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT
                 : errno == ENOENT || errno == 0         ? -ECONNREFUSED /* no such socket */
                 : errno == EHOSTDOWN                    ? -EHOSTUNREACH
                                                         : -errno;
    if (result == 0 && (fcntl(context->fd, F_SETFD, FD_CLOEXEC) != 0 ||
                        fcntl(context->fd, F_SETFL, fcntl(context->fd, F_GETFL) | O_NONBLOCK) != 0))
        result = -errno;
    if (result == 0 && !engine->local)
        redisEnableKeepAlive(context);
    if (result != 0) {
        if (context != NULL)
            redisFree(context);
        return result;
    }
    context->flags &= ~REDIS_BLOCK; /* a read that finds nothing is no error */
    engine->context = context;
    if (log_in(engine))
        return 0;
    disconnect(engine, -ENOMEM);
    return -ENOMEM;
}

/* ---- Questions */

static bool append(redis_engine *engine, const kiln__remote_request *request)
{
    static const char give[] =
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
    char life[16];
    snprintf(life, sizeof(life), "%u", (unsigned)request->ms);
    const char *words[6];
    size_t lengths[6];
    int count = 0;
#define WORD(text, size) (words[count] = (text), lengths[count] = (size), count++)
#define TEXT(text)       WORD(text, strlen(text))
    switch (request->verb) {
    case KILN__ENGINE_GET:
        TEXT("GET"), TEXT(request->name);
        break;
    case KILN__ENGINE_EXISTS:
        TEXT("EXISTS"), TEXT(request->name);
        break;
    case KILN__ENGINE_PUT:
        TEXT("SET"), TEXT(request->name), WORD(request->value, request->length);
        break;
    case KILN__ENGINE_TAKE:
        TEXT("SET"), TEXT(request->name), WORD(request->value, request->length), TEXT("NX"), TEXT("PX"), TEXT(life);
        break;
    case KILN__ENGINE_GIVE:
        TEXT("EVAL"), TEXT(give), TEXT("1"), TEXT(request->name), WORD(request->value, request->length);
        break;
    }
#undef TEXT
#undef WORD
    return redisAppendCommandArgv(engine->context, count, words, lengths) == REDIS_OK;
}

static void send_waiting(redis_engine *engine)
{
    int result = 0;
    if (engine->waiting.first == NULL)
        return;
    if (engine->context == NULL)
        result = connect_now(engine);
    if (result != 0) {
        kiln__remote_settle_all(&engine->base, &engine->waiting, result);
        return;
    }
    if (engine->sent.first == NULL)
        engine->progress = engine->step = kiln__remote_now();
    for (kiln__remote_request *request; (request = kiln__remote_take_first(&engine->waiting)) != NULL;) {
        kiln__remote_append(&engine->sent, request);
        if (!append(engine, request)) {
            disconnect(engine, -ENOMEM);
            kiln__remote_settle_all(&engine->base, &engine->waiting, -ENOMEM);
            return;
        }
    }
}

/* ---- Answers */

/* Takes one answer. 0, or the trouble with the connection. */
static int take_answer(redis_engine *engine, const redisReply *reply)
{
    kiln__remote_request *request;
    engine->step = kiln__remote_now();
    if (engine->logins > 0) {
        engine->logins--;
        return reply->type == REDIS_REPLY_STATUS  ? 0
               : reply->type == REDIS_REPLY_ERROR ? kiln__redis_refusal(reply->str)
                                                  : -EPROTO;
    }
    request = kiln__remote_take_first(&engine->sent);
    const int result = kiln__redis_result(request, reply);
    kiln__remote_settle(&engine->base, request, result);
    return result == -EPROTO ? result : 0;
}

/* Takes all answers that are there. 0, or the trouble with the connection. */
static int read_answers(redis_engine *engine)
{
    const redisReader *reader = engine->context->reader;
    int error = 0;
    while (error == 0) {
        void *reply = NULL;
        if (engine->sent.first == NULL && engine->logins == 0)
            return reader->len > reader->pos ? -EPROTO : 0; /* an answer without a question */
        error = kiln__redis_check_next(reader, engine->base.options.value_max);
        if (error == -EMSGSIZE && engine->logins > 0)
            error = -EPROTO; /* which concerns all calls */
        if (error != 0)
            break;
        if (redisReaderGetReply(engine->context->reader, &reply) != REDIS_OK)
            return -EPROTO;
        if (reply == NULL)
            return 0;
        error = take_answer(engine, reply);
        freeReplyObject(reply);
    }
    return error == -EAGAIN ? 0 : error;
}

/* ---- The thread */

static int until_late(const redis_engine *engine)
{
    if (engine->sent.first == NULL && engine->logins == 0)
        return -1;
    const uint32_t answer = engine->base.options.answer_ms;
    const uint64_t silent = engine->progress + answer, slow = engine->step + SLOWEST * (uint64_t)answer,
                   late = silent < slow ? silent : slow, now = kiln__remote_now();
    return late > now ? (int)(late - now) : 0;
}

static int transfer(redis_engine *engine, short events)
{
    int error = 0;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
        if (redisBufferRead(engine->context) != REDIS_OK)
            return -ECONNRESET;
        engine->progress = kiln__remote_now();
        error = read_answers(engine);
    }
    if (error == 0 && (events & POLLOUT) != 0) {
        if (redisBufferWrite(engine->context, NULL) != REDIS_OK)
            return -ECONNRESET;
        engine->progress = engine->step = kiln__remote_now();
    }
    return error;
}

static bool has_output(const redisContext *context)
{
    return context->obuf != NULL && context->obuf[0] != '\0';
}

static void run(kiln__engine *base)
{
    redis_engine *engine = (redis_engine *)base;
    while (kiln__remote_collect(base, &engine->waiting)) {
        send_waiting(engine);
        struct pollfd fds[2] = { { .fd = base->wake, .events = POLLIN }, { .fd = -1 } };
        if (engine->context != NULL)
            fds[1] = (struct pollfd){ .fd = engine->context->fd,
                                      .events = (short)(POLLIN | (has_output(engine->context) ? POLLOUT : 0)) };
        const int ready = poll(fds, 2, until_late(engine));
        const int error = ready > 0 && fds[1].revents != 0 ? transfer(engine, fds[1].revents) : 0;
        if (error != 0)
            disconnect(engine, error);
        else if (engine->context != NULL && until_late(engine) == 0)
            disconnect(engine, -ETIMEDOUT);
    }
    kiln__remote_settle_all(base, &engine->waiting, -ECANCELED);
    disconnect(engine, -ECANCELED);
}

static void fini(kiln__engine *base)
{
    explicit_bzero(&((redis_engine *)base)->url, sizeof(kiln__url)); /* the password */
}

const kiln__engine_kind kiln__redis_kind = { schemes, sizeof(redis_engine), init, run, fini };
