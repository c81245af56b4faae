/* The engine for servers that speak HTTP's GET, HEAD and PUT: nginx with WebDAV, gateways of object stores. A value
 * lies at the URL's path and its name. libcurl does the rest, TLS too. There are no leases. */
#include "remote/requests.h"
#include "remote/url.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 4, PUTS = 2, PUT_TIMES = 20 }; /* PUTS at once, so that they keep no get waiting */

typedef struct http_engine {
    kiln__engine base;
    CURLM *multi;
    kiln__remote_list waiting, puts;
    unsigned putting;              /* puts that run */
    kiln__remote_request *running; /* through `next`, in no order */
    char url[512];                 /* ends with '/' */
} http_engine;

static const char *const schemes[] = { "http", "https", NULL };

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool init(kiln__engine *base, const char *url, char *problem, size_t room)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    http_engine *engine = (http_engine *)base;
    const size_t length = strlen(url);
    kiln__url parts;
    pthread_once(&once, start_curl);
    const bool named = kiln__url_read(&parts, url, problem, room) && parts.host[0] != '\0';
    explicit_bzero(&parts, sizeof(parts));
    if (!named || length + 2 > sizeof(engine->url) || strpbrk(url, "?#") != NULL) {
        snprintf(problem, room, "expected http[s]://[user:password@]host[:port][/path] without ? and #");
        return false;
    }
    snprintf(engine->url, sizeof(engine->url), "%s%s", url, url[length - 1] == '/' ? "" : "/");
    engine->multi = curl_multi_init();
    if (engine->multi == NULL) {
        snprintf(problem, room, "out of memory");
        return false;
    }
    curl_multi_setopt(engine->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS);
    return true;
}

/* ---- One request */

typedef struct transfer {
    kiln__engine *engine;
    kiln__remote_request *request;
    size_t sent;
    size_t room; /* of the request's answer */
    bool too_long;
} transfer;

static size_t take_answer(char *data, size_t size, size_t count, void *user)
{
    transfer *self = user;
    kiln__remote_request *request = self->request;
    const size_t length = size * count, needed = request->answer_length + length;
    if (request->verb != KILN__ENGINE_GET)
        return length;
    if (needed > self->engine->options.value_max) {
        self->too_long = true;
        return 0;
    }
    if (needed > self->room) {
        const size_t room = needed > 2 * self->room ? needed : 2 * self->room;
        void *bigger = realloc(request->answer, room);
        if (bigger == NULL)
            return 0;
        request->answer = bigger;
        self->room = room;
    }
    memcpy((char *)request->answer + request->answer_length, data, length);
    request->answer_length = needed;
    return length;
}

static size_t give_value(char *out, size_t size, size_t count, void *user)
{
    transfer *self = user;
    const size_t left = self->request->length - self->sent, length = size * count < left ? size * count : left;
    memcpy(out, (const char *)self->request->value + self->sent, length);
    self->sent += length;
    return length;
}

/* A connection that was closed meanwhile lets curl send a value once more. */
static int rewind_value(void *user, curl_off_t offset, int origin)
{
    transfer *self = user;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > self->request->length)
        return CURL_SEEKFUNC_FAIL;
    self->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static CURL *prepare(http_engine *engine, transfer *self)
{
    const kiln__engine_options *options = &engine->base.options;
    const kiln__remote_request *request = self->request;
    const bool put = request->verb == KILN__ENGINE_PUT;
    char url[sizeof(engine->url) + 256];
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return NULL;
    snprintf(url, sizeof(url), "%s%s", engine->url, request->name);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, self);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* the server is near; the environment's proxy is for the world */
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)options->answer_ms * (put ? PUT_TIMES : 1));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, self);
    if (request->verb == KILN__ENGINE_EXISTS)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (put) {
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L); /* bytes a second, for one second */
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 1L);
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->length);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_value);
        curl_easy_setopt(curl, CURLOPT_READDATA, self);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, rewind_value);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, self);
        curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    }
    return curl;
}

static int result_of(const transfer *self, CURL *curl, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    switch (code) {
    case CURLE_OK:
        break;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_WRITE_ERROR:
        return self->too_long ? -EMSGSIZE : -ENOMEM;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_COULDNT_RESOLVE_HOST:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_PEER_FAILED_VERIFICATION:
        return -EACCES;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
    return status >= 200 && status < 300    ? 0
           : status == 404 || status == 410 ? -ENOENT
           : status == 401                  ? -EACCES
           : status == 403                  ? -EPERM
           : status == 413 || status == 507 ? -ENOSPC
           : status == 408 || status == 504 ? -ETIMEDOUT
                                            : -EREMOTEIO;
}

/* ---- The thread */

static void begin(http_engine *engine, kiln__remote_request *request)
{
    if (request->verb == KILN__ENGINE_TAKE || request->verb == KILN__ENGINE_GIVE) {
        kiln__remote_settle(&engine->base, request, -ENOTSUP);
        return;
    }
    transfer *self = calloc(1, sizeof(*self));
    CURL *curl = NULL;
    if (self != NULL) {
        *self = (transfer){ .engine = &engine->base, .request = request };
        curl = prepare(engine, self);
    }
    if (curl == NULL || curl_multi_add_handle(engine->multi, curl) != CURLM_OK) {
        curl_easy_cleanup(curl);
        free(self);
        kiln__remote_settle(&engine->base, request, -ENOMEM);
        return;
    }
    engine->putting += request->verb == KILN__ENGINE_PUT;
    request->handle = curl;
    request->next = engine->running;
    engine->running = request;
}

static void finish(http_engine *engine, CURL *curl, int result)
{
    transfer *self;
    curl_easy_getinfo(curl, CURLINFO_PRIVATE, &self);
    for (kiln__remote_request **at = &engine->running; *at != NULL; at = &(*at)->next)
        if (*at == self->request) {
            *at = self->request->next;
            break;
        }
    engine->putting -= self->request->verb == KILN__ENGINE_PUT;
    curl_multi_remove_handle(engine->multi, curl);
    curl_easy_cleanup(curl);
    const bool lost = self->request->verb == KILN__ENGINE_PUT &&
                      (result == -ETIMEDOUT || result == -ECONNREFUSED || result == -ECONNRESET);
    kiln__remote_settle(&engine->base, self->request, result);
    if (lost) /* the rest would take as long, one after the other */
        kiln__remote_settle_all(&engine->base, &engine->puts, result);
    free(self);
}

static void finish_done(http_engine *engine)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(engine->multi, &left)) != NULL;) {
        transfer *self;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
        finish(engine, message->easy_handle, result_of(self, message->easy_handle, message->data.result));
    }
}

static void run(kiln__engine *base)
{
    http_engine *engine = (http_engine *)base;
    while (kiln__remote_collect(base, &engine->waiting)) {
        int running;
        for (kiln__remote_request *request; (request = kiln__remote_take_first(&engine->waiting)) != NULL;)
            if (request->verb == KILN__ENGINE_PUT)
                kiln__remote_append(&engine->puts, request);
            else
                begin(engine, request);
        while (engine->putting < PUTS && engine->puts.first != NULL)
            begin(engine, kiln__remote_take_first(&engine->puts));
        curl_multi_perform(engine->multi, &running);
        finish_done(engine);
        if (engine->putting < PUTS && engine->puts.first != NULL)
            continue;
        struct curl_waitfd wake = { .fd = base->wake, .events = CURL_WAIT_POLLIN };
        curl_multi_poll(engine->multi, &wake, 1, engine->running != NULL ? 1000 : 60000, NULL);
    }
    kiln__remote_settle_all(base, &engine->waiting, -ECANCELED);
    kiln__remote_settle_all(base, &engine->puts, -ECANCELED);
    while (engine->running != NULL)
        finish(engine, engine->running->handle, -ECANCELED);
}

static void fini(kiln__engine *base)
{
    http_engine *engine = (http_engine *)base;
    curl_multi_cleanup(engine->multi);
    explicit_bzero(engine->url, sizeof(engine->url));
}

const kiln__engine_kind kiln__http_kind = { schemes, sizeof(http_engine), init, run, fini };
