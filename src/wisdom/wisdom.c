/* The records that a service knows, as views that are loaded anew when files change, and the choices made from them. */
#include "wisdom/wisdom.h"

#include "base/alloc.h"
#include "base/table.h"
#include "os/cancel.h"
#include "wisdom/describe.h"
#include "wisdom/folder.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t look_every_ns = 1000000000;

enum { ANSWERS_MAX = 512 }; /* that a view remembers; a full one forgets them */

/* A choice that was made, by the text of its query. */
typedef struct wisdom_answer {
    UT_hash_handle hh;
    kiln__wisdom_choice choice;
    char key[];
} wisdom_answer;

/* All records that were known at one moment. Reference-counted, and immutable but for the answers, so that a match
 * needs no lock while it compares. */
typedef struct wisdom_view {
    atomic_uint refs;
    uint64_t generation;
    kiln__wisdom_set own, shared;
    kiln__wisdom_item *items; /* in the order of sources, then of their records */
    size_t count;
    bool has_digests;     /* some record has the digest of its template's text */
    pthread_mutex_t lock; /* guards `answers` */
    wisdom_answer *answers;
} wisdom_view;

struct kiln__wisdom {
    kiln__wisdom_folder own, shared;
    pthread_mutex_t loading; /* held while files are read; guards `stamp` */
    kiln__text stamp;        /* of the files that the view is from; empty: look again */
    pthread_mutex_t lock;    /* guards `view` and `kept`; nothing is read or called under it */
    wisdom_view *view;
    kiln__wisdom_set kept; /* records that could not be stored */
    atomic_uint_least64_t generation, kept_changes;
    atomic_int_least64_t next_look;
    atomic_uint_least64_t changes, seen; /* by this process, and of these how many the view is not older than */
};

/* ---- Views */

static void forget_answers(wisdom_view *view)
{
    wisdom_answer *answer, *next;
    HASH_ITER (hh, view->answers, answer, next) {
        HASH_DEL(view->answers, answer);
        kiln__free(answer);
    }
}

static void release_view(wisdom_view *view)
{
    if (view == NULL || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1)
        return;
    forget_answers(view);
    pthread_mutex_destroy(&view->lock);
    kiln__wisdom_set_fini(&view->own);
    kiln__wisdom_set_fini(&view->shared);
    kiln__free(view->items);
    kiln__free(view);
}

/* With a reference; NULL where nothing could be loaded. */
static wisdom_view *current_view(kiln__wisdom *wisdom)
{
    pthread_mutex_lock(&wisdom->lock);
    wisdom_view *view = wisdom->view;
    if (view != NULL)
        atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&wisdom->lock);
    return view;
}

static void add_items(wisdom_view *view, const kiln__wisdom_set *set, kiln__wisdom_source source)
{
    for (size_t i = 0; i < set->count; i++) {
        view->items[view->count++] = (kiln__wisdom_item){ set->records[i], source };
        view->has_digests = view->has_digests || set->records[i]->digest[0] != '\0';
    }
}

/* Reads the files of both folders; the user's own records include those that could not be stored. *error is 0 or the
 * first -errno that left out a file which may be good. One reference. NULL: out of memory. */
static wisdom_view *load_view(kiln__wisdom *wisdom, int *error)
{
    wisdom_view *view = kiln__calloc(1, sizeof(*view));
    if (view == NULL)
        return NULL;
    atomic_init(&view->refs, 1);
    pthread_mutex_init(&view->lock, NULL);
    int own_error = kiln__wisdom_folder_load(&wisdom->own, &view->own);
    int shared_error = kiln__wisdom_folder_load(&wisdom->shared, &view->shared);
    *error = own_error != 0 ? own_error : shared_error;
    pthread_mutex_lock(&wisdom->lock);
    bool joined = kiln__wisdom_set_join(&view->own, &wisdom->kept);
    pthread_mutex_unlock(&wisdom->lock);
    view->items = kiln__calloc(view->own.count + view->shared.count + 1, sizeof(*view->items));
    if (!joined || view->items == NULL) {
        *error = -ENOMEM;
        release_view(view);
        return NULL;
    }
    add_items(view, &view->own, KILN__WISDOM_OWN);
    add_items(view, &view->shared, KILN__WISDOM_SHARED);
    return view;
}

static bool equal_views(const wisdom_view *a, const wisdom_view *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = a->items[i].source == b->items[i].source &&
                kiln__wisdom_record_equal(a->items[i].record, b->items[i].record);
    return equal;
}

static void install_view(kiln__wisdom *wisdom, wisdom_view *fresh)
{
    pthread_mutex_lock(&wisdom->lock);
    wisdom_view *old = wisdom->view;
    fresh->generation = (old != NULL ? old->generation : 0) + 1;
    wisdom->view = fresh;
    atomic_store(&wisdom->generation, fresh->generation);
    pthread_mutex_unlock(&wisdom->lock);
    release_view(old);
}

/* A text that changes when the known records may have changed. 0 or -errno. */
static int make_stamp(kiln__wisdom *wisdom, kiln__text *out)
{
    kiln__text_append_uint(out, atomic_load(&wisdom->kept_changes), 1);
    int own = kiln__wisdom_folder_stamp(&wisdom->own, out);
    kiln__text_append(out, "\n");
    int shared = kiln__wisdom_folder_stamp(&wisdom->shared, out);
    return out->failed ? -ENOMEM : own != 0 ? own : shared;
}

/* A shortage of this process says nothing about the files: the known records stay. */
static bool is_shortage(int error)
{
    return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* With `loading` held. Equal records leave the generation as it is, however often they are written. */
static void load(kiln__wisdom *wisdom)
{
    kiln__text stamp = { 0 };
    int error = make_stamp(wisdom, &stamp), unread = -ENOMEM;
    bool known = wisdom->view != NULL;
    bool same = error == 0 && strcmp(kiln__text_string(&stamp), kiln__text_string(&wisdom->stamp)) == 0;
    wisdom_view *fresh = same || (known && is_shortage(error)) ? NULL : load_view(wisdom, &unread);
    bool partial = known ? is_shortage(unread) : unread == -ENOMEM;
    if (fresh == NULL || partial || (known && equal_views(fresh, wisdom->view)))
        release_view(fresh);
    else
        install_view(wisdom, fresh);
    if (!same) {
        kiln__text_fini(&wisdom->stamp);
        if (error == 0 && unread == 0) {
            wisdom->stamp = stamp;
            return;
        }
    }
    kiln__text_fini(&stamp);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool must_look(const kiln__wisdom *wisdom)
{
    return atomic_load(&wisdom->generation) == 0 || atomic_load(&wisdom->seen) != atomic_load(&wisdom->changes);
}

/* While one thread looks, the others go on with the known records. They wait only where there are none yet, or where
 * this process has added one since. */
static void look_if_due(kiln__wisdom *wisdom)
{
    bool must = must_look(wisdom);
    if (!must && now_ns() < atomic_load(&wisdom->next_look))
        return;
    KILN__NO_CANCEL;
    if (must)
        pthread_mutex_lock(&wisdom->loading);
    else if (pthread_mutex_trylock(&wisdom->loading) != 0)
        return;
    if (must_look(wisdom) || now_ns() >= atomic_load(&wisdom->next_look)) {
        uint64_t changes = atomic_load(&wisdom->changes);
        atomic_store(&wisdom->next_look, now_ns() + look_every_ns);
        load(wisdom);
        atomic_store(&wisdom->seen, changes);
    }
    pthread_mutex_unlock(&wisdom->loading);
}

void kiln__wisdom_refresh(kiln__wisdom *wisdom)
{
    atomic_fetch_add(&wisdom->changes, 1);
}

uint64_t kiln__wisdom_generation(kiln__wisdom *wisdom)
{
    look_if_due(wisdom);
    return atomic_load(&wisdom->generation);
}

bool kiln__wisdom_peek(const kiln__wisdom *wisdom, uint64_t *generation)
{
    *generation = atomic_load(&wisdom->generation);
    return !must_look(wisdom) && now_ns() < atomic_load(&wisdom->next_look);
}

/* ---- Matching */

/* Everything that a choice depends on, as text. */
static void make_key(const kiln__wisdom_query *query, kiln__text *out)
{
    const kiln__fields *spec = query->spec;
    kiln__spec_format(spec, false, out);
    kiln__text_printf(out, "\n%d\n%" PRIu64 "\n%s\n%s\n%s\n%" PRIu64,
                      spec->n_set && spec->n > 0 ? (int)kiln__wisdom_size(spec) : -1, kiln__wisdom_cols(spec),
                      query->toolchain, query->device->model, query->device->target,
                      (uint64_t)query->device->multiprocessors);
}

static bool make_digest(const kiln__wisdom_query *query, char out[KILN__WISDOM_DIGEST])
{
    kiln__target target;
    bool twin = kiln__wisdom_target(query, &target) && kiln__target_facts(&target)->twin;
    return kiln__wisdom_digest(query->spec->template, twin, out);
}

/* Where no record has a digest none is made: that costs more than all the rest of a match. */
static kiln_status choose(const wisdom_view *view, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                          kiln_wisdom_candidate_fn fn, void *data, kiln_report *report)
{
    char digest[KILN__WISDOM_DIGEST] = "";
    if (view->has_digests && !make_digest(query, digest))
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    return kiln__wisdom_choose(out, view->items, view->count, query, digest, fn, data, report);
}

static bool find_answer(wisdom_view *view, const kiln__text *key, kiln__wisdom_choice *out)
{
    wisdom_answer *known;
    pthread_mutex_lock(&view->lock);
    HASH_FIND(hh, view->answers, key->data, key->length, known);
    if (known != NULL)
        *out = known->choice;
    pthread_mutex_unlock(&view->lock);
    return known != NULL;
}

/* Out of memory the answer is not remembered. The later of two threads with one query adds nothing: both answers are
 * equal. */
static void add_answer(wisdom_view *view, const kiln__text *key, const kiln__wisdom_choice *choice)
{
    bool added = false;
    wisdom_answer *known, *fresh = kiln__alloc(sizeof(*fresh) + key->length);
    if (fresh == NULL)
        return;
    fresh->choice = *choice;
    memcpy(fresh->key, key->data, key->length);
    pthread_mutex_lock(&view->lock);
    if (HASH_COUNT(view->answers) == ANSWERS_MAX)
        forget_answers(view);
    HASH_FIND(hh, view->answers, key->data, key->length, known);
    if (known == NULL)
        KILN__TABLE_ADD(view->answers, fresh->key, key->length, fresh, added);
    pthread_mutex_unlock(&view->lock);
    if (!added)
        kiln__free(fresh);
}

/* A wrong query gets no choice and no error: resolving the spec reports its fault. */
kiln_status kiln__wisdom_match(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                               kiln_report *report)
{
    kiln__text key = { 0 };
    memset(out, 0, sizeof(*out));
    if (!kiln__wisdom_is_open(query->spec))
        return KILN_OK;
    make_key(query, &key);
    look_if_due(wisdom);
    wisdom_view *view = current_view(wisdom);
    kiln_status status = key.failed || view == NULL ? KILN_ENOMEM : KILN_OK;
    if (status == KILN_OK && !find_answer(view, &key, out)) {
        status = choose(view, query, out, NULL, NULL, NULL);
        if (status == KILN_OK)
            add_answer(view, &key, out);
    }
    release_view(view);
    kiln__text_fini(&key);
    return status == KILN_ENOMEM ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

kiln_status kiln__wisdom_explain(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                                 kiln_wisdom_candidate_fn fn, void *data, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    look_if_due(wisdom);
    wisdom_view *view = current_view(wisdom);
    if (view == NULL)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    kiln_status status = choose(view, query, out, fn, data, report);
    release_view(view);
    return status;
}

kiln_status kiln__wisdom_visit(kiln__wisdom *wisdom, int (*fn)(void *data, const kiln__wisdom_item *item), void *data)
{
    look_if_due(wisdom);
    wisdom_view *view = current_view(wisdom);
    for (size_t i = 0; view != NULL && i < view->count; i++)
        if (fn(data, &view->items[i]) != 0)
            break;
    release_view(view);
    return view != NULL ? KILN_OK : KILN_ENOMEM;
}

/* ---- Adding */

/* Keeps records for this process alone. */
static kiln_status keep_set(kiln__wisdom *wisdom, const kiln__wisdom_set *set, kiln__wisdom_counts *tally,
                            kiln_report *report)
{
    *tally = (kiln__wisdom_counts){ 0 };
    pthread_mutex_lock(&wisdom->lock);
    kiln__wisdom_fate fate = kiln__wisdom_set_add_all(&wisdom->kept, set->records, set->count, tally);
    pthread_mutex_unlock(&wisdom->lock);
    atomic_fetch_add(&wisdom->kept_changes, 1);
    if (fate == KILN__WISDOM_FULL)
        return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_STORE, 0,
                          "more than %d records of wisdom cannot be stored, nor kept: put the cache directory right",
                          KILN__WISDOM_RECORDS_MAX);
    return fate == KILN__WISDOM_NO_MEMORY ? kiln__fail_memory(report, KILN__STAGE_STORE) : KILN_OK;
}

kiln_status kiln__wisdom_add_set(kiln__wisdom *wisdom, const kiln__wisdom_set *set, kiln__wisdom_outcome *out,
                                 kiln_report *report)
{
    kiln_status status = KILN_OK;
    memset(out, 0, sizeof(*out));
    out->stored = kiln__wisdom_folder_merge(&wisdom->own, set, &out->tally, out->problem) == 0;
    if (!out->stored)
        status = keep_set(wisdom, set, &out->tally, report);
    kiln__wisdom_refresh(wisdom);
    return status;
}

kiln_status kiln__wisdom_add(kiln__wisdom *wisdom, const kiln__wisdom_entry *records, size_t count,
                             kiln__wisdom_outcome *out, kiln_report *report)
{
    kiln__wisdom_set set = { 0 };
    char problem[KILN__WISDOM_REASON];
    kiln_status status = KILN_OK;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < count; i++)
        if (!kiln__wisdom_record_check(&records[i], problem))
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "record %zu: %s", i + 1, problem);
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        kiln__wisdom_fate fate = kiln__wisdom_set_add(&set, &records[i]);
        if (fate == KILN__WISDOM_NO_MEMORY)
            status = kiln__fail_memory(report, KILN__STAGE_STORE);
        else if (fate == KILN__WISDOM_FULL)
            status = kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "more than %d records at once",
                                KILN__WISDOM_RECORDS_MAX);
    }
    if (status == KILN_OK)
        status = kiln__wisdom_add_set(wisdom, &set, out, report);
    kiln__wisdom_set_fini(&set);
    return status;
}

kiln_status kiln__wisdom_learn(kiln__wisdom *wisdom, const kiln__fields *spec, const kiln__wisdom_device *device,
                               const char *toolchain, const kiln__wisdom_measure *measure, kiln__wisdom_outcome *out,
                               kiln_report *report)
{
    char op_class[KILN__WISDOM_CLASS], model[KILN__WISDOM_MODEL], maker[32], digest[KILN__WISDOM_DIGEST];
    kiln__text op = { 0 }, geometry = { 0 };
    kiln__wisdom_device known = *device;
    const kiln__wisdom_query query = { .spec = spec, .device = device, .toolchain = toolchain };
    memset(out, 0, sizeof(*out));
    if (!kiln__wisdom_is_complete(spec) || spec->dtype == KILN__DTYPE_UNSET || !spec->n_set || spec->n == 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0,
                          "wisdom is about a spec with op, dtype and n, and n above 0");
    kiln__wisdom_class(spec, op_class);
    kiln__wisdom_model(device->model, model);
    known.model = model;
    kiln__wisdom_op(spec, &op);
    kiln__wisdom_geometry(spec, &geometry);
    snprintf(maker, sizeof(maker), "kiln %s", kiln_version());
    const kiln__wisdom_entry record = { .device = known,
                                        .template_name = spec->template->name,
                                        .op_class = op_class,
                                        .op = kiln__text_string(&op),
                                        .dtype = kiln__dtype_name(spec->dtype),
                                        .log2_n = kiln__wisdom_size(spec),
                                        .cols = kiln__wisdom_cols(spec),
                                        .geometry = kiln__text_string(&geometry),
                                        .ms = measure->ms,
                                        .gbps = measure->gbps,
                                        .ratio = measure->ratio,
                                        .samples = measure->samples,
                                        .variants = measure->variants,
                                        .digest = digest,
                                        .toolchain = toolchain,
                                        .maker = maker,
                                        .extra = "" };
    bool made = make_digest(&query, digest) && !op.failed && !geometry.failed;
    kiln_status status =
        !made ? kiln__fail_memory(report, KILN__STAGE_STORE) : kiln__wisdom_add(wisdom, &record, 1, out, report);
    kiln__text_fini(&op);
    kiln__text_fini(&geometry);
    return status;
}

void kiln__wisdom_path(const kiln__wisdom *wisdom, const char *model, kiln__text *out)
{
    kiln__wisdom_folder_path(&wisdom->own, model, out);
}

/* ---- Opening */

kiln__wisdom *kiln__wisdom_open(kiln__store *own, kiln__store *shared, uint32_t wait_ms, const kiln__log *log,
                                kiln__store_counters *counters)
{
    kiln__wisdom *wisdom = kiln__calloc(1, sizeof(*wisdom));
    if (wisdom == NULL)
        return NULL;
    wisdom->own = (kiln__wisdom_folder){ own, false, log, counters, wait_ms, 0 };
    wisdom->shared = (kiln__wisdom_folder){ shared, true, log, counters, wait_ms, 0 };
    pthread_mutex_init(&wisdom->loading, NULL);
    pthread_mutex_init(&wisdom->lock, NULL);
    return wisdom;
}

void kiln__wisdom_close(kiln__wisdom *wisdom)
{
    if (wisdom == NULL)
        return;
    release_view(wisdom->view);
    kiln__wisdom_set_fini(&wisdom->kept);
    kiln__text_fini(&wisdom->stamp);
    pthread_mutex_destroy(&wisdom->lock);
    pthread_mutex_destroy(&wisdom->loading);
    kiln__free(wisdom);
}
