#include "remote/requests.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void kiln__remote_append(kiln__remote_list *list, kiln__remote_request *request)
{
    request->next = NULL;
    if (list->last != NULL)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

kiln__remote_request *kiln__remote_take_first(kiln__remote_list *list)
{
    kiln__remote_request *request = list->first;
    if (request != NULL)
        list->first = request->next;
    if (list->first == NULL)
        list->last = NULL;
    return request;
}

uint64_t kiln__remote_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void free_request(kiln__remote_request *request)
{
    free(request->answer);
    free(request);
}

static void wake(kiln__engine *engine)
{
    const uint64_t one = 1;
    while (write(engine->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

bool kiln__remote_collect(kiln__engine *engine, kiln__remote_list *out)
{
    uint64_t count;
    while (read(engine->wake, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
    pthread_mutex_lock(&engine->lock);
    for (kiln__remote_request *request; (request = kiln__remote_take_first(&engine->waiting)) != NULL;)
        kiln__remote_append(out, request);
    const bool goes_on = !engine->closing;
    pthread_mutex_unlock(&engine->lock);
    return goes_on;
}

void kiln__remote_settle(kiln__engine *engine, kiln__remote_request *request, int result)
{
    if (request->done != NULL)
        request->done(request->data, result);
    pthread_mutex_lock(&engine->lock);
    request->result = result;
    request->settled = true;
    engine->open--;
    if (!request->synchronous)
        engine->waiting_bytes -= request->length;
    const bool forgotten = !request->synchronous || request->left;
    pthread_cond_broadcast(&engine->settled);
    pthread_mutex_unlock(&engine->lock);
    if (forgotten)
        free_request(request);
}

void kiln__remote_settle_all(kiln__engine *engine, kiln__remote_list *list, int result)
{
    for (kiln__remote_request *request; (request = kiln__remote_take_first(list)) != NULL;)
        kiln__remote_settle(engine, request, result);
}

/* Settles asynchronous requests without their engine. */
static void drop_all(kiln__remote_list *list, int result)
{
    for (kiln__remote_request *request; (request = kiln__remote_take_first(list)) != NULL;) {
        if (request->done != NULL)
            request->done(request->data, result);
        free_request(request);
    }
}

/* ---- The host's threads */

enum { CLOSE_MS = 100 };

static kiln__remote_request *new_request(const kiln__engine_call *call)
{
    const size_t name = strlen(call->name) + 1;
    kiln__remote_request *request = malloc(sizeof(*request) + name + call->length);
    if (request == NULL)
        return NULL;
    *request = (kiln__remote_request){ .verb = call->verb, .ms = call->ms, .length = call->length };
    request->name = (char *)(request + 1);
    memcpy(request->name, call->name, name);
    request->value = request->name + name;
    if (call->length > 0)
        memcpy(request->value, call->value, call->length);
    return request;
}

static void end(kiln__engine *engine);

static void *run(void *data)
{
    kiln__engine *engine = data;
    pthread_setname_np(pthread_self(), "kiln-remote");
    engine->kind->run(engine);
    engine->kind->fini(engine); /* the kind may wait for its own threads */
    pthread_mutex_lock(&engine->lock);
    engine->ended = true;
    const bool left = engine->left;
    pthread_cond_broadcast(&engine->settled);
    pthread_mutex_unlock(&engine->lock);
    if (left)
        end(engine);
    return NULL;
}

/* With all signals blocked: they are the host's, and a socket that its server has closed gives SIGPIPE. */
static bool start(kiln__engine *engine)
{
    sigset_t all, before;
    if (engine->started)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->started = pthread_create(&engine->thread, NULL, run, engine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return engine->started;
}

/* Under the lock. */
static int submit(kiln__engine *engine, kiln__remote_request *request)
{
    if (!request->synchronous && request->verb != KILN__ENGINE_GIVE && /* which is short, and others wait for it */
        engine->waiting_bytes + request->length > engine->options.waiting_max)
        return -ENOBUFS;
    if (engine->closing)
        return -ECANCELED;
    if (!start(engine))
        return -EAGAIN;
    engine->open++;
    if (!request->synchronous)
        engine->waiting_bytes += request->length;
    kiln__remote_append(&engine->waiting, request);
    wake(engine);
    return 0;
}

static struct timespec after(uint32_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

static int ask(kiln__engine *engine, const kiln__engine_call *call, uint32_t wait_ms, void **value, size_t *length)
{
    const struct timespec until = after(wait_ms);
    kiln__remote_request *request = new_request(call);
    int late = 0;
    if (value != NULL)
        *value = NULL;
    if (request == NULL)
        return -ENOMEM;
    request->synchronous = true;
    pthread_mutex_lock(&engine->lock);
    int result = submit(engine, request);
    if (result != 0) {
        pthread_mutex_unlock(&engine->lock);
        free_request(request);
        return result;
    }
    while (!request->settled && late == 0)
        late = pthread_cond_clockwait(&engine->settled, &engine->lock, CLOCK_MONOTONIC, &until);
    request->left = !request->settled;
    const bool left = request->left;
    pthread_mutex_unlock(&engine->lock);
    if (left)
        return -ETIMEDOUT;
    result = request->result;
    if (value != NULL && result == 0) {
        *value = request->answer;
        *length = request->answer_length;
        request->answer = NULL;
    }
    free_request(request);
    return result;
}

static int send_call(kiln__engine *engine, const kiln__engine_call *call, kiln__engine_done done, void *data)
{
    kiln__remote_request *request = new_request(call);
    if (request == NULL)
        return -ENOMEM;
    request->done = done;
    request->data = data;
    pthread_mutex_lock(&engine->lock);
    const int result = submit(engine, request);
    pthread_mutex_unlock(&engine->lock);
    if (result != 0)
        free_request(request);
    return result;
}

static int drain(kiln__engine *engine, uint32_t wait_ms)
{
    const struct timespec until = after(wait_ms);
    int late = 0;
    pthread_mutex_lock(&engine->lock);
    while (engine->open > 0 && late == 0)
        late = pthread_cond_clockwait(&engine->settled, &engine->lock, CLOCK_MONOTONIC, &until);
    const int result = engine->open > 0 ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&engine->lock);
    return result;
}

/* ---- Opening and closing */

static const kiln__engine_kind *find_kind(const char *url)
{
    static const kiln__engine_kind *const kinds[] = { &kiln__redis_kind, &kiln__http_kind };
    const size_t length = strcspn(url, ":");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && strncmp(url + length, "://", 3) == 0; i++)
        for (const char *const *scheme = kinds[i]->schemes; *scheme != NULL; scheme++)
            if (strlen(*scheme) == length && strncmp(*scheme, url, length) == 0)
                return kinds[i];
    return NULL;
}

static void end(kiln__engine *engine)
{
    if (engine->wake >= 0)
        close(engine->wake);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->settled);
    if (engine->options.url != NULL) /* it may have a password */
        explicit_bzero((char *)engine->options.url, strlen(engine->options.url));
    free((char *)engine->options.url);
    free(engine);
}

static kiln__engine *open_engine(const kiln__engine_options *options, char *problem, size_t room)
{
    const kiln__engine_kind *kind = find_kind(options->url);
    kiln__engine *engine = kind != NULL ? calloc(1, kind->size) : NULL;
    if (engine == NULL) {
        snprintf(problem, room, "%s",
                 kind != NULL ? "out of memory" : "expected redis://, valkey://, redis+unix://, http:// or https://");
        return NULL;
    }
    engine->kind = kind;
    engine->options = *options;
    engine->options.url = strdup(options->url);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->settled, NULL);
    engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool good = engine->options.url != NULL && engine->wake >= 0;
    if (!good)
        snprintf(problem, room, "%s", strerrordesc_np(errno));
    if (!good || !kind->init(engine, engine->options.url, problem, room)) {
        if (good)
            kind->fini(engine);
        end(engine);
        return NULL;
    }
    return engine;
}

/* Waits for the thread's end. Under the lock. */
static void await_end(kiln__engine *engine)
{
    const struct timespec until = after(CLOSE_MS);
    int late = 0;
    while (!engine->ended && late == 0)
        late = pthread_cond_clockwait(&engine->settled, &engine->lock, CLOCK_MONOTONIC, &until);
    engine->left = !engine->ended;
}

static void close_engine(kiln__engine *engine)
{
    kiln__remote_list waiting = { NULL, NULL };
    pthread_mutex_lock(&engine->lock);
    engine->closing = true;
    const bool started = engine->started;
    wake(engine);
    if (started)
        await_end(engine);
    const bool left = engine->left;
    waiting = engine->waiting;
    engine->waiting = (kiln__remote_list){ NULL, NULL };
    const pthread_t thread = engine->thread;
    if (left)
        pthread_detach(thread);
    pthread_mutex_unlock(&engine->lock);
    if (left) { /* the engine is the thread's from here on, and is not touched */
        drop_all(&waiting, -ECANCELED);
        return;
    }
    if (started)
        pthread_join(thread, NULL);
    else
        engine->kind->fini(engine);
    drop_all(&waiting, -ECANCELED);
    end(engine);
}

/* The one symbol of the library. */
__attribute__((visibility("default"))) const kiln__engine_module kiln_remote_module;
const kiln__engine_module kiln_remote_module = {
    .version = KILN__ENGINE_VERSION,
    .open = open_engine,
    .ask = ask,
    .send = send_call,
    .drain = drain,
    .release = free,
    .close = close_engine,
};
