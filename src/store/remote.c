#include "store/remote.h"

#include "base/alloc.h"
#include "base/probe.h"
#include "base/table.h"
#include "base/text.h"
#include "os/beside.h"
#include "os/cpu.h"
#include "os/dylib.h"
#include "store/seal.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    CONNECT_MS = 100,
    WAIT_MS = 250, /* of a caller */
    PATIENCE_MS = 30000,
    RETRY_MS = 5000, /* of waiting for a server that failed, in all, where pushes are patient */
    PAUSE_MS = 20,
    NOT_ASKED = INT_MIN, /* the breaker is open */
    LEASE_MS = 60000,
    BREAK_MS = 1000,
    BREAK_MOST_MS = 60000,
    FAILED_MOST = 10000, /* pushes whose names are kept */
    TOKEN_SIZE = 33,
    NAME_SIZE = 8 + KILN__DIGEST_HEX + KILN__ENTRY_TOOLCHAIN_SIZE
};
#define VALUE_MAX   ((size_t)64 << 20)
#define WAITING_MAX ((size_t)64 << 20)

typedef struct failed_push {
    struct failed_push *next;
    int result;
    char spec[];
} failed_push;

typedef struct remote_store {
    kiln__store base;
    const kiln__engine_module *module;
    kiln__engine *engine;
    kiln__secrets secrets;
    bool trust, writes, patient;
    char token[TOKEN_SIZE];  /* of leases */
    atomic_uint refs;        /* the owner's, and one of each push that is on its way */
    pthread_mutex_t closing; /* held while log and counters are used on the engine's thread */
    bool closed;             /* they are gone; guarded by `closing` */
    atomic_uint retry_ms;    /* of RETRY_MS, used so far */
    pthread_mutex_t lock;    /* guards what follows */
    uint64_t broken_until;   /* ms; 0: the breaker is closed */
    uint64_t break_ms;       /* how long it was opened last */
    unsigned breaks;         /* how often it was opened */
    uint64_t no_lease_until; /* ms: leases are held for ever */
    failed_push *failed;
    size_t failed_count;
    struct {
        atomic_uint_least64_t gets, hits, skipped, failures, refused, pushes, push_failures, leases, lease_waits,
            wait_ns;
    } counts;
} remote_store;

static void count(atomic_uint_least64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- The breaker */

static uint64_t now_ms(void)
{
    return kiln__cpu_now_ns() / 1000000;
}

/* Whether a question may be asked; *turn then says between which failures. Where the breaker has been open long enough,
 * one thread tries. */
static bool may_ask(remote_store *self, unsigned *turn)
{
    pthread_mutex_lock(&self->lock);
    const uint64_t now = now_ms();
    const bool may = now >= self->broken_until;
    if (may && self->broken_until != 0)
        self->broken_until = now + self->break_ms;
    *turn = self->breaks;
    pthread_mutex_unlock(&self->lock);
    if (!may)
        count(&self->counts.skipped);
    return may;
}

/* The state of the server, by a result. */
typedef enum verdict { WORKS, SAYS_NOTHING, BROKEN } verdict;

static verdict judge(int result, kiln__engine_verb verb)
{
    const bool reads = verb == KILN__ENGINE_GET || verb == KILN__ENGINE_EXISTS;
    if (!reads && (result == -EREMOTEIO || result == -EACCES)) /* who may not write reads on */
        return SAYS_NOTHING;
    switch (result) {
    case 0:
    case -ENOENT:
    case -EBUSY:
    case -EPERM:   /* to do this */
    case -EBADMSG: /* it is another kind of value */
    case -ENOSPC:
    case -EROFS:
        return WORKS;
    case -EMSGSIZE:
    case -ENOTSUP:
    case -ENOBUFS:
    case -ENOMEM:
    case -ECANCELED:
    case NOT_ASKED:
        return SAYS_NOTHING;
    default:
        return BROKEN;
    }
}

/* Of questions that were on their way together the first failure counts. */
static void note_result(remote_store *self, int result, kiln__engine_verb verb, unsigned turn)
{
    const verdict found = judge(result, verb);
    pthread_mutex_lock(&self->lock);
    if (found == WORKS && turn == self->breaks)
        self->broken_until = self->break_ms = 0;
    if (found == BROKEN && turn == self->breaks) {
        const uint64_t next = self->break_ms == 0 ? BREAK_MS : 2 * self->break_ms;
        self->break_ms = next < BREAK_MOST_MS ? next : BREAK_MOST_MS;
        self->broken_until = now_ms() + self->break_ms;
        self->breaks++;
    }
    pthread_mutex_unlock(&self->lock);
    if (found == BROKEN)
        count(&self->counts.failures);
}

static int ask(remote_store *self, const kiln__engine_call *call, void **value, size_t *length)
{
    unsigned turn;
    if (!may_ask(self, &turn))
        return NOT_ASKED;
    const uint64_t start = kiln__cpu_now_ns();
    const int result = self->module->ask(self->engine, call, WAIT_MS, value, length);
    const uint64_t ns = kiln__cpu_now_ns() - start;
    atomic_fetch_add_explicit(&self->counts.wait_ns, ns, memory_order_relaxed);
    KILN__PROBE(remote_done, call->name, call->verb, result, ns);
    note_result(self, result, call->verb, turn);
    if (judge(result, call->verb) == BROKEN || (result == -EPERM && call->verb == KILN__ENGINE_GET))
        kiln__store_note(&self->base, KILN__TROUBLE_READ, "", kiln__store_error_text(result), NULL);
    return result;
}

const char *kiln__remote_error_text(int error)
{
    return error == NOT_ASKED   ? "the server failed a moment before"
           : error == -ENOBUFS  ? "the server does not keep up"
           : error == -EMSGSIZE ? "it is longer than an entry on a server may be"
                                : kiln__store_error_text(error);
}

/* ---- Names */

/* "kiln1:DIGEST:TOOLCHAIN" has an entry, "kiln1:DIGEST" the toolchain that pushed one last, "kiln1:DIGEST:lease" the
 * token of a machine that compiles it. */
static void name_digest(char out[NAME_SIZE], const uint8_t digest[KILN__DIGEST_SIZE], const char *more)
{
    char hex[KILN__DIGEST_HEX];
    kiln__digest_hex(hex, digest);
    snprintf(out, NAME_SIZE, "kiln1:%s%s%s", hex, more[0] != '\0' ? ":" : "", more);
}

static bool is_toolchain(const char *text, size_t length)
{
    if (length == 0 || length >= KILN__ENTRY_TOOLCHAIN_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", text[i]) == NULL ||
            text[i] == '\0')
            return false;
    return true;
}

/* ---- Gets */

static void refuse(remote_store *self, kiln__trouble trouble, const char *name, const char *why, kiln__miss *miss)
{
    count(&self->counts.refused);
    kiln__store_note(&self->base, trouble, name, why, miss);
}

/* The bytes behind the seal, or all where there is none, and how many they are. NULL: they may not be trusted. */
static const uint8_t *unseal(const remote_store *self, const char *name, const uint8_t *value, size_t *length)
{
    if (!kiln__seal_holds(&self->secrets, name, value, *length) && !self->trust)
        return NULL;
    const size_t front = kiln__seal_is(value, *length) ? KILN__SEAL_SIZE : 0;
    *length -= front;
    return value + front;
}

/* The entry in a server's answer, if it may be trusted and is whole. */
static kiln__blob *open_value(remote_store *self, const kiln__key *key, const char *name, const uint8_t *value,
                              size_t length, kiln__miss *why)
{
    const uint8_t *inner = unseal(self, name, value, &length);
    if (inner == NULL) {
        refuse(self, KILN__TROUBLE_UNTRUSTED, name,
               !kiln__seal_is(value, length) ? "it is not signed"
               : self->secrets.count > 0     ? "it is signed with another secret, or for another key"
                                             : "it is signed, and there is no secret to check it",
               why);
        return NULL;
    }
    kiln__entry_fault fault;
    void *bytes = kiln__memdup(inner, length);
    kiln__blob *blob = bytes != NULL ? kiln__blob_take(bytes, length, key, &fault) : NULL;
    if (bytes != NULL && blob == NULL && fault != KILN__ENTRY_GOOD)
        refuse(self, KILN__TROUBLE_DAMAGED, name, kiln__entry_fault_text(fault), why);
    if (blob != NULL && !kiln__entry_travels(&blob->entry)) {
        refuse(self, KILN__TROUBLE_DAMAGED, name, "it is of a kind that is of use on one machine alone", why);
        kiln__blob_release(blob);
        blob = NULL;
    }
    return blob;
}

static kiln__blob *get_exact(remote_store *self, const kiln__key *key, kiln__miss *why)
{
    char name[NAME_SIZE];
    void *value = NULL;
    size_t length = 0;
    kiln__blob *blob = NULL;
    name_digest(name, key->digest, key->toolchain);
    const kiln__engine_call call = { .verb = KILN__ENGINE_GET, .name = name };
    const int result = ask(self, &call, &value, &length);
    if (result != NOT_ASKED)
        count(&self->counts.gets);
    if (result == 0)
        blob = open_value(self, key, name, value, length, why);
    else if (result == -EMSGSIZE)
        refuse(self, KILN__TROUBLE_DAMAGED, name, "it is longer than an entry", why);
    else if (result == -EBADMSG)
        refuse(self, KILN__TROUBLE_DAMAGED, name, "the server has another kind of value there", why);
    else if (result != -ENOENT)
        kiln__miss_raise(why, KILN__MISS_ERROR);
    if (blob != NULL)
        count(&self->counts.hits);
    self->module->release(value);
    return blob;
}

static kiln__blob *remote_get(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    remote_store *self = (remote_store *)store;
    char name[NAME_SIZE];
    void *value = NULL;
    size_t length = 0;
    kiln__key found = *key;
    if (key->toolchain[0] != '\0')
        return older ? NULL : get_exact(self, key, why);
    name_digest(name, key->digest, "");
    const kiln__engine_call call = { .verb = KILN__ENGINE_GET, .name = name };
    const int result = ask(self, &call, &value, &length);
    const bool named = result == 0 && is_toolchain(value, length);
    if (named) {
        memcpy(found.toolchain, value, length);
        found.toolchain[length] = '\0';
    }
    self->module->release(value);
    return named ? get_exact(self, &found, why) : NULL;
}

/* ---- Pushes */

/* A push on its way. */
typedef struct push {
    remote_store *store;
    unsigned turn;        /* of the breaker */
    bool names;           /* the entry is there, and this is the name of its toolchain */
    failed_push *record;  /* made before, so that a failure needs no memory */
    char name[NAME_SIZE]; /* of the toolchain's name on the server */
    char toolchain[KILN__ENTRY_TOOLCHAIN_SIZE];
} push;

static void release_store(remote_store *self)
{
    failed_push *item, *next;
    if (atomic_fetch_sub(&self->refs, 1) != 1)
        return;
    LL_FOREACH_SAFE (self->failed, item, next)
        kiln__free(item);
    kiln__secrets_forget(&self->secrets);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->closing);
    kiln__store_free(&self->base);
}

/* Keeps the name of what did not arrive. */
static bool keep_failure(remote_store *store, failed_push *record, int result)
{
    record->result = result;
    pthread_mutex_lock(&store->lock);
    const bool kept = store->failed_count < FAILED_MOST;
    if (kept) {
        LL_PREPEND(store->failed, record);
        store->failed_count++;
    }
    pthread_mutex_unlock(&store->lock);
    return kept;
}

/* Counts the end of a push. True: the failure keeps the record. */
static bool note_end(push *self, int result)
{
    remote_store *store = self->store;
    note_result(store, result, KILN__ENGINE_PUT, self->turn);
    if (result == 0) {
        if (!self->names)
            count(&store->counts.pushes);
        return false;
    }
    count(&store->counts.push_failures);
    if (result != NOT_ASKED)
        kiln__store_note(&store->base, KILN__TROUBLE_WRITE, "", kiln__store_error_text(result), NULL);
    return keep_failure(store, self->record, result);
}

static void end_push(void *data, int result);

/* Sends the name of the toolchain behind its entry. */
static void send_toolchain(push *self)
{
    const kiln__engine_call call = {
        .verb = KILN__ENGINE_PUT, .name = self->name, .value = self->toolchain, .length = strlen(self->toolchain)
    };
    self->names = true;
    const int result = self->store->module->send(self->store->engine, &call, end_push, self);
    if (result != 0)
        end_push(self, result);
}

/* On the engine's thread, which may outlive the store's owner. */
static void end_push(void *data, int result)
{
    push *self = data;
    remote_store *store = self->store;
    pthread_mutex_lock(&store->closing);
    const bool closed = store->closed, kept = !closed && note_end(self, result);
    pthread_mutex_unlock(&store->closing);
    if (result == 0 && !self->names && !closed) {
        send_toolchain(self);
        return;
    }
    if (!kept)
        kiln__free(self->record);
    kiln__free(self);
    release_store(store);
}

static push *new_push(remote_store *store, const kiln__blob *blob)
{
    const kiln__section *spec = kiln__entry_find(&blob->entry, "spec");
    const size_t length = spec != NULL ? spec->length : 0;
    push *made = kiln__alloc(sizeof(*made));
    failed_push *record = kiln__calloc(1, sizeof(*record) + length + 1);
    if (made == NULL || record == NULL) {
        kiln__free(made);
        kiln__free(record);
        count(&store->counts.push_failures);
        return NULL;
    }
    if (length > 0)
        memcpy(record->spec, spec->data, length);
    *made = (push){ .store = store, .record = record };
    name_digest(made->name, blob->entry.key.digest, "");
    memcpy(made->toolchain, blob->entry.key.toolchain, sizeof(made->toolchain));
    atomic_fetch_add(&store->refs, 1);
    return made;
}

/* Waits for room where the store is patient. */
static int send_call(remote_store *self, const kiln__engine_call *call, kiln__engine_done done, void *data)
{
    int result = self->module->send(self->engine, call, done, data);
    for (int waited = 0; result == -ENOBUFS && self->patient && waited < PATIENCE_MS; waited += PAUSE_MS) {
        kiln__cpu_sleep_ms(PAUSE_MS);
        result = self->module->send(self->engine, call, done, data);
    }
    return result;
}

/* Waits until a server that failed may be asked again, where the store is patient, some seconds in all. */
static void await_server(remote_store *self)
{
    while (self->patient && atomic_load(&self->retry_ms) < RETRY_MS) {
        pthread_mutex_lock(&self->lock);
        const bool open = now_ms() < self->broken_until;
        pthread_mutex_unlock(&self->lock);
        if (!open)
            return;
        kiln__cpu_sleep_ms(PAUSE_MS);
        atomic_fetch_add(&self->retry_ms, PAUSE_MS);
    }
}

static int send_push(remote_store *self, push *going, const kiln__engine_call *call)
{
    const int result = may_ask(self, &going->turn) ? send_call(self, call, end_push, going) : NOT_ASKED;
    if (result != 0)
        end_push(going, result);
    return result;
}

/* Bytes behind their seal, kiln__free; NULL: out of memory. */
static uint8_t *seal_bytes(const remote_store *self, const char *name, const void *bytes, size_t length)
{
    uint8_t *sealed = kiln__alloc(KILN__SEAL_SIZE + length);
    if (sealed == NULL)
        return NULL;
    kiln__seal_make(sealed, &self->secrets, name, bytes, length);
    memcpy(sealed + KILN__SEAL_SIZE, bytes, length);
    return sealed;
}

static int push_sealed(remote_store *self, const char *name, const uint8_t *sealed, const kiln__blob *blob)
{
    push *going = new_push(self, blob);
    const kiln__engine_call call = {
        .verb = KILN__ENGINE_PUT, .name = name, .value = sealed, .length = KILN__SEAL_SIZE + blob->length
    };
    if (going == NULL)
        return -ENOMEM;
    if (call.length > VALUE_MAX) {
        end_push(going, -EMSGSIZE);
        return -EMSGSIZE;
    }
    await_server(self);
    return send_push(self, going, &call);
}

static int remote_put(kiln__store *store, kiln__blob *blob, bool replace)
{
    remote_store *self = (remote_store *)store;
    char name[NAME_SIZE];
    (void)replace; /* entries of one key are equal, or the later one is better */
    if (!self->writes || !kiln__entry_travels(&blob->entry))
        return -EROFS;
    name_digest(name, blob->entry.key.digest, blob->entry.key.toolchain);
    uint8_t *sealed = seal_bytes(self, name, blob->bytes, blob->length);
    if (sealed == NULL)
        count(&self->counts.push_failures);
    const int result = sealed != NULL ? push_sealed(self, name, sealed, blob) : -ENOMEM;
    kiln__free(sealed);
    return result;
}

/* A server may have forgotten which toolchain made an entry that it has. */
static void repair_toolchain(remote_store *self, const kiln__blob *blob)
{
    const char *toolchain = blob->entry.key.toolchain;
    char name[NAME_SIZE];
    void *value = NULL;
    size_t length = 0;
    name_digest(name, blob->entry.key.digest, "");
    const kiln__engine_call call = { .verb = KILN__ENGINE_GET, .name = name };
    const int result = ask(self, &call, &value, &length);
    const bool equal = result == 0 && length == strlen(toolchain) && memcmp(value, toolchain, length) == 0;
    push *going = equal ? NULL : new_push(self, blob);
    self->module->release(value);
    if (going != NULL && may_ask(self, &going->turn))
        send_toolchain(going);
    else if (going != NULL)
        end_push(going, NOT_ASKED);
}

void kiln__remote_push(kiln__store *store, kiln__blob *blob)
{
    remote_store *self = (remote_store *)store;
    char name[NAME_SIZE];
    void *value = NULL;
    size_t length = 0;
    if (!self->writes || !kiln__entry_travels(&blob->entry))
        return;
    name_digest(name, blob->entry.key.digest, blob->entry.key.toolchain);
    uint8_t *sealed = seal_bytes(self, name, blob->bytes, blob->length);
    if (sealed == NULL) {
        count(&self->counts.push_failures);
        return;
    }
    await_server(self);
    const kiln__engine_call call = { .verb = KILN__ENGINE_GET, .name = name };
    const int result = ask(self, &call, &value, &length);
    const bool equal = result == 0 && length == KILN__SEAL_SIZE + blob->length && memcmp(value, sealed, length) == 0;
    self->module->release(value);
    if (!equal)
        push_sealed(self, name, sealed, blob);
    else
        repair_toolchain(self, blob);
    kiln__free(sealed);
}

int kiln__remote_wait(kiln__store *store, uint32_t wait_ms, kiln__remote_failed failed, void *data)
{
    remote_store *self = (remote_store *)store;
    const int result = self->module->drain(self->engine, wait_ms);
    pthread_mutex_lock(&self->lock);
    failed_push *first = self->failed, *item, *next;
    self->failed = NULL;
    self->failed_count = 0;
    pthread_mutex_unlock(&self->lock);
    LL_FOREACH_SAFE (first, item, next) {
        if (failed != NULL)
            failed(data, item->spec, kiln__remote_error_text(item->result));
        kiln__free(item);
    }
    return result;
}

/* ---- Leases */

static kiln__engine_call lease_call(remote_store *self, kiln__engine_verb verb, char name[NAME_SIZE],
                                    const uint8_t digest[KILN__DIGEST_SIZE])
{
    name_digest(name, digest, "lease");
    return (kiln__engine_call){
        .verb = verb, .name = name, .value = self->token, .length = TOKEN_SIZE - 1, .ms = LEASE_MS
    };
}

int kiln__remote_lease(kiln__store *store, const uint8_t digest[KILN__DIGEST_SIZE])
{
    remote_store *self = (remote_store *)store;
    char name[NAME_SIZE];
    if (!self->writes)
        return -EROFS;
    pthread_mutex_lock(&self->lock);
    const bool useless = now_ms() < self->no_lease_until;
    pthread_mutex_unlock(&self->lock);
    if (useless)
        return -ENOTSUP;
    const kiln__engine_call call = lease_call(self, KILN__ENGINE_TAKE, name, digest);
    const int result = ask(self, &call, NULL, NULL);
    if (result == 0 || result == -EBUSY)
        count(result == 0 ? &self->counts.leases : &self->counts.lease_waits);
    else if (result != NOT_ASKED && judge(result, KILN__ENGINE_TAKE) == BROKEN)
        kiln__remote_give(store, digest); /* the server may have given it, too late */
    return result;
}

void kiln__remote_lose_lease(kiln__store *store)
{
    remote_store *self = (remote_store *)store;
    pthread_mutex_lock(&self->lock);
    self->no_lease_until = now_ms() + LEASE_MS;
    pthread_mutex_unlock(&self->lock);
}

void kiln__remote_give(kiln__store *store, const uint8_t digest[KILN__DIGEST_SIZE])
{
    remote_store *self = (remote_store *)store;
    char name[NAME_SIZE];
    const kiln__engine_call call = lease_call(self, KILN__ENGINE_GIVE, name, digest);
    self->module->send(self->engine, &call, NULL, NULL);
}

/* ---- Opening and closing */

static void remote_close(kiln__store *store)
{
    remote_store *self = (remote_store *)store;
    if (self->engine != NULL) /* a short program's only push may be on its way */
        self->module->drain(self->engine, WAIT_MS);
    pthread_mutex_lock(&self->closing);
    self->closed = true;
    pthread_mutex_unlock(&self->closing);
    if (self->engine != NULL)
        self->module->close(self->engine);
    release_store(self);
}

static const char secret_advice[] =
    "it is not used: give all machines the same secret (KILN_REMOTE_SECRET), or say that "
    "the server is trusted (KILN_TRUST_REMOTE=on)";

static const kiln__store_vtable remote_vtable = {
    .name = "remote",
    .get = remote_get,
    .put = remote_put,
    .drop = kiln__store_no_drop, /* another machine may be able to load it */
    .close = remote_close,
    .kind = "remote",
    .advice = { [KILN__TROUBLE_DAMAGED] = "it is not used: remove it from the server if this goes on",
                [KILN__TROUBLE_UNTRUSTED] = secret_advice,
                [KILN__TROUBLE_READ] = "kernels are compiled here meanwhile: check the server and KILN_REMOTE",
                [KILN__TROUBLE_WRITE] = "it is not pushed: check the server's memory and rights" },
};

/* The URL without user and password, for messages; also one in which a password has a slash. */
static char *shown_url(const char *url)
{
    kiln__text text = { 0 };
    const char *from = strstr(url, "://"), *at = strrchr(url, '@');
    from = from != NULL ? from + 3 : url;
    kiln__text_printf(&text, "%.*s%s", (int)(from - url), url, at != NULL && at >= from ? at + 1 : from);
    return kiln__text_take(&text);
}

static bool open_library(remote_store *self, char *problem, size_t room)
{
    kiln__beside found;
    char why[256] = "";
    const kiln__beside_result result = kiln__beside_find("libkiln-remote.so", R_OK, &found);
    kiln__dylib *library = NULL;
    if (result == KILN__BESIDE_FOUND)
        library = kiln__dylib_open((const char *const[]){ found.path, NULL }, why, sizeof(why));
    /* Its thread may outlive the store, and ends pushes in this library. */
    if (library != NULL && kiln__dylib_pin(library) && kiln__dylib_pin_own(&remote_vtable))
        self->module = kiln__dylib_symbol(library, KILN__ENGINE_SYMBOL);
    if (result == KILN__BESIDE_ABSENT)
        snprintf(problem, room, "found no libkiln-remote.so (looked for %s): install it beside libkiln",
                 kiln__text_string(&found.looked));
    else if (result == KILN__BESIDE_REFUSED)
        snprintf(problem, room, "%s is not used: it is %s", found.path, found.why);
    else if (library == NULL)
        snprintf(problem, room, "%s", why);
    else if (self->module == NULL)
        snprintf(problem, room, "%s is no module of Kiln, or cannot be kept open", found.path);
    else if (self->module->version != KILN__ENGINE_VERSION)
        snprintf(problem, room, "%s is of another version of Kiln", found.path);
    kiln__text_fini(&found.looked);
    kiln__dylib_close(library);
    return self->module != NULL && self->module->version == KILN__ENGINE_VERSION;
}

static bool make_token(char out[TOKEN_SIZE])
{
    uint8_t bytes[(TOKEN_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

kiln__store *kiln__remote_store_open(const kiln__remote_options *options, const kiln__log *log,
                                     kiln__store_counters *counters, char *problem, size_t room)
{
    const kiln__engine_options engine = { .url = options->url,
                                          .connect_ms = CONNECT_MS,
                                          .answer_ms = WAIT_MS,
                                          .value_max = VALUE_MAX,
                                          .waiting_max = WAITING_MAX };
    char why[160];
    remote_store *self =
        kiln__store_make(sizeof(*self), &remote_vtable, shown_url(options->url), log, counters, problem, room);
    if (self == NULL)
        return NULL;
    pthread_mutex_init(&self->lock, NULL);
    pthread_mutex_init(&self->closing, NULL);
    atomic_init(&self->refs, 1);
    self->module = options->module;
    self->trust = options->trust;
    bool good = true;
    if (options->secret != NULL && !kiln__secrets_read(&self->secrets, options->secret, why, sizeof(why))) {
        snprintf(problem, room, "the secret in %s is not used: %s", options->secret, why);
        good = false;
    } else if (options->secret == NULL && !options->trust) {
        kiln__text_copy(problem, room,
                        "there is no secret to check what it holds: name a file of one in KILN_REMOTE_SECRET");
        good = false;
    }
    self->writes = options->writes && self->secrets.count > 0;
    self->patient = options->patient;
    if (good && !make_token(self->token)) {
        kiln__text_copy(problem, room, "the system gives no random numbers");
        good = false;
    }
    good = good && (self->module != NULL || open_library(self, problem, room));
    if (good)
        self->engine = self->module->open(&engine, problem, room);
    if (self->engine != NULL)
        return &self->base;
    remote_close(&self->base);
    return NULL;
}

/* ---- Values that are no kernels: the records of tuning */

int kiln__remote_read(kiln__store *store, const char *name, void **out, size_t *length)
{
    remote_store *self = (remote_store *)store;
    const kiln__engine_call call = { .verb = KILN__ENGINE_GET, .name = name };
    void *value = NULL;
    size_t size = 0;
    *out = NULL;
    int result = ask(self, &call, &value, &size);
    const uint8_t *inner = result == 0 ? unseal(self, name, value, &size) : NULL;
    if (result == 0 && inner == NULL) {
        refuse(self, KILN__TROUBLE_UNTRUSTED, name, "it is not signed with a secret of this machine", NULL);
        result = -EKEYREJECTED;
    }
    if (result == 0) {
        *out = kiln__memdup(inner, size);
        *length = size;
        result = *out != NULL ? 0 : -ENOMEM;
    }
    self->module->release(value);
    return result;
}

int kiln__remote_write(kiln__store *store, const char *name, const void *bytes, size_t length)
{
    remote_store *self = (remote_store *)store;
    if (self->secrets.count == 0)
        return -EROFS;
    uint8_t *sealed = seal_bytes(self, name, bytes, length);
    const kiln__engine_call call = {
        .verb = KILN__ENGINE_PUT, .name = name, .value = sealed, .length = KILN__SEAL_SIZE + length
    };
    const int result = sealed != NULL ? ask(self, &call, NULL, NULL) : -ENOMEM;
    kiln__free(sealed);
    return result;
}

/* ---- For doctor and the counters */

int kiln__remote_ping(kiln__store *store)
{
    const kiln__engine_call call = { .verb = KILN__ENGINE_EXISTS, .name = "kiln1:ping" };
    const int result = ask((remote_store *)store, &call, NULL, NULL);
    return result == -ENOENT ? 0 : result;
}

bool kiln__remote_is_signed(const kiln__store *store)
{
    return ((const remote_store *)store)->secrets.count > 0;
}

void kiln__remote_count(kiln__store *store, kiln__remote_counts *out)
{
    remote_store *self = (remote_store *)store;
#define COUNT(field) .field = atomic_load_explicit(&self->counts.field, memory_order_relaxed)
    *out = (kiln__remote_counts){ COUNT(gets),        COUNT(hits),   COUNT(skipped),       COUNT(failures),
                                  COUNT(refused),     COUNT(pushes), COUNT(push_failures), COUNT(leases),
                                  COUNT(lease_waits), COUNT(wait_ns) };
#undef COUNT
}
