#include "wisdom/wisdom.h"

#include "base/alloc.h"
#include "os/cancel.h"
#include "wisdom/describe.h"
#include "wisdom/memo.h"
#include "wisdom/view.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t look_every_ns = 1000000000;

struct kiln__wisdom {
    const kiln__log *log;
    kiln__wisdom_folder own, shared;
    pthread_mutex_t loading; /* held while files are read; guards `stamp` */
    kiln__text stamp;        /* of the files that the view is from; empty: look again */
    pthread_mutex_t lock;    /* guards `view` and `kept`; nothing is read or called under it */
    kiln__wisdom_view *view;
    kiln__wisdom_set kept; /* what could not be stored */
    atomic_uint_least64_t generation, kept_changes;
    atomic_int_least64_t next_look;
    atomic_uint_least64_t changes, seen; /* by this process, and of these how many the view is not older than */
    kiln__wisdom_memo memo;
};

/* With a reference; NULL where nothing could be loaded. */
static kiln__wisdom_view *current_view(kiln__wisdom *wisdom)
{
    pthread_mutex_lock(&wisdom->lock);
    kiln__wisdom_view *view = wisdom->view;
    if (view != NULL)
        atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&wisdom->lock);
    return view;
}

/* ---- Loading */

static kiln__wisdom_view *load_view(kiln__wisdom *wisdom, int *error)
{
    kiln__wisdom_set kept = { 0 };
    kiln__wisdom_view *view = NULL;
    pthread_mutex_lock(&wisdom->lock);
    bool copied = kiln__wisdom_set_join(&kept, &wisdom->kept);
    pthread_mutex_unlock(&wisdom->lock);
    if (copied)
        view = kiln__wisdom_view_load(&wisdom->own, &wisdom->shared, &kept, error);
    kiln__wisdom_set_fini(&kept);
    return view;
}

static void install(kiln__wisdom *wisdom, kiln__wisdom_view *fresh)
{
    pthread_mutex_lock(&wisdom->lock);
    kiln__wisdom_view *old = wisdom->view;
    fresh->generation = (old != NULL ? old->generation : 0) + 1;
    wisdom->view = fresh;
    atomic_store(&wisdom->generation, fresh->generation);
    pthread_mutex_unlock(&wisdom->lock);
    kiln__wisdom_view_release(old);
}

/* Everything that tells whether what is known has changed. 0 or -errno. */
static int make_stamp(kiln__wisdom *wisdom, kiln__text *out)
{
    kiln__text_printf(out, "%llu\n", (unsigned long long)atomic_load(&wisdom->kept_changes));
    int own = kiln__wisdom_folder_stamp(&wisdom->own, out);
    kiln__text_append(out, "\n");
    int shared = kiln__wisdom_folder_stamp(&wisdom->shared, out);
    return out->failed ? -ENOMEM : own != 0 ? own : shared;
}

/* What this process lacks for the moment says nothing about the files: what is known stays. */
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
    kiln__wisdom_view *fresh = same || (known && is_shortage(error)) ? NULL : load_view(wisdom, &unread);
    bool partial = known ? is_shortage(unread) : unread == -ENOMEM;
    if (fresh == NULL || partial || (known && kiln__wisdom_view_equal(fresh, wisdom->view)))
        kiln__wisdom_view_release(fresh);
    else
        install(wisdom, fresh);
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

/* While one thread looks the others go on with what is known. They wait only where that would be nothing at all, or
 * less than they may expect: where this process has added something since. */
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

/* What a choice depends on, as text. */
static void make_key(const kiln__wisdom_query *query, kiln__text *out)
{
    const kiln__fields *spec = query->spec;
    kiln__spec_format(spec, false, out);
    kiln__text_printf(out, "\n%d\n%s\n%s\n%s\n%" PRIu64,
                      spec->n_set && spec->n > 0 ? (int)kiln__wisdom_size(spec->n) : -1, query->toolchain,
                      query->device->model, query->device->target, (uint64_t)query->device->multiprocessors);
}

static bool make_digest(const kiln__wisdom_query *query, char out[KILN__WISDOM_DIGEST])
{
    kiln__target target;
    bool twin = kiln__wisdom_target(query, &target) && kiln__target_facts(&target)->twin;
    return kiln__wisdom_digest(query->spec->template, twin, out);
}

/* Where no record has a digest none is made: that costs more than all the rest of a match. */
static kiln_status choose(const kiln__wisdom_view *view, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                          kiln__wisdom_explain_fn fn, void *data, kiln_report *report)
{
    char digest[KILN__WISDOM_DIGEST] = "";
    if (view->has_digests && !make_digest(query, digest))
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    return kiln__wisdom_choose(out, view->items, view->count, query, digest, fn, data, report);
}

/* Chooses what the memo does not know, and tells it. */
static kiln_status choose_anew(kiln__wisdom *wisdom, const kiln__wisdom_query *query, const kiln__text *key,
                               kiln__wisdom_choice *out)
{
    kiln__wisdom_view *view = current_view(wisdom);
    if (view == NULL)
        return KILN_ENOMEM;
    kiln_status status = choose(view, query, out, NULL, NULL, NULL);
    if (status == KILN_OK)
        kiln__wisdom_memo_add(&wisdom->memo, view->generation, key->data, key->length, out);
    kiln__wisdom_view_release(view);
    return status;
}

/* The choice of wrong queries is none: who resolves the spec says what is wrong with it. */
kiln_status kiln__wisdom_match(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                               kiln_report *report)
{
    kiln__text key = { 0 };
    memset(out, 0, sizeof(*out));
    if (!kiln__wisdom_is_open(query->spec))
        return KILN_OK;
    make_key(query, &key);
    kiln_status status = key.failed ? KILN_ENOMEM : KILN_OK;
    if (status == KILN_OK &&
        !kiln__wisdom_memo_find(&wisdom->memo, kiln__wisdom_generation(wisdom), key.data, key.length, out))
        status = choose_anew(wisdom, query, &key, out);
    kiln__text_fini(&key);
    return status == KILN_ENOMEM ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

kiln_status kiln__wisdom_explain(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                                 kiln__wisdom_explain_fn fn, void *data, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    look_if_due(wisdom);
    kiln__wisdom_view *view = current_view(wisdom);
    if (view == NULL)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    kiln_status status = choose(view, query, out, fn, data, report);
    kiln__wisdom_view_release(view);
    return status;
}

kiln_status kiln__wisdom_visit(kiln__wisdom *wisdom, int (*fn)(void *data, const kiln__wisdom_item *item), void *data)
{
    look_if_due(wisdom);
    kiln__wisdom_view *view = current_view(wisdom);
    for (size_t i = 0; view != NULL && i < view->count; i++)
        if (fn(data, &view->items[i]) != 0)
            break;
    kiln__wisdom_view_release(view);
    return view != NULL ? KILN_OK : KILN_ENOMEM;
}

/* ---- Adding */

static kiln_status collect(kiln__wisdom_set *out, const kiln__wisdom_entry *records, size_t count, kiln_report *report)
{
    char problem[KILN__WISDOM_REASON];
    for (size_t i = 0; i < count; i++)
        if (!kiln__wisdom_record_check(&records[i], problem))
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "record %zu: %s", i + 1, problem);
    for (size_t i = 0; i < count; i++) {
        kiln__wisdom_fate fate = kiln__wisdom_set_add(out, &records[i]);
        if (fate == KILN__WISDOM_NO_MEMORY)
            return kiln__fail_memory(report, KILN__STAGE_STORE);
        if (fate == KILN__WISDOM_FULL)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "more than %d records at once",
                              KILN__WISDOM_RECORDS_MAX);
    }
    return KILN_OK;
}

/* For this process alone. */
static kiln_status keep(kiln__wisdom *wisdom, const kiln__wisdom_set *set, kiln__wisdom_counts *tally,
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
        status = keep(wisdom, set, &out->tally, report);
    kiln__wisdom_refresh(wisdom);
    return status;
}

kiln_status kiln__wisdom_add(kiln__wisdom *wisdom, const kiln__wisdom_entry *records, size_t count,
                             kiln__wisdom_outcome *out, kiln_report *report)
{
    kiln__wisdom_set set = { 0 };
    memset(out, 0, sizeof(*out));
    kiln_status status = collect(&set, records, count, report);
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
    kiln__wisdom_entry record = kiln__wisdom_record_empty;
    const kiln__wisdom_query query = { .spec = spec, .device = device, .toolchain = toolchain };
    memset(out, 0, sizeof(*out));
    if (!kiln__wisdom_is_complete(spec) || spec->dtype == KILN__DTYPE_UNSET || !spec->n_set || spec->n == 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0,
                          "wisdom is about a spec with op, dtype and n, and n above 0");
    kiln__wisdom_class(spec, op_class);
    kiln__wisdom_model(device->model, model);
    kiln__wisdom_op(spec, &op);
    kiln__wisdom_geometry(spec, &geometry);
    snprintf(maker, sizeof(maker), "kiln %d.%d.%d", KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH);
    record.device = *device;
    record.device.model = model;
    record.template_name = spec->template->name;
    record.op_class = op_class;
    record.op = kiln__text_string(&op);
    record.dtype = kiln__dtype_name(spec->dtype);
    record.log2_n = kiln__wisdom_size(spec->n);
    record.geometry = kiln__text_string(&geometry);
    record.ms = measure->ms;
    record.gbps = measure->gbps;
    record.ratio = measure->ratio;
    record.samples = measure->samples;
    record.variants = measure->variants;
    record.digest = digest;
    record.toolchain = toolchain;
    record.maker = maker;
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
    wisdom->log = log;
    wisdom->own = (kiln__wisdom_folder){ own, false, log, counters, wait_ms, 0 };
    wisdom->shared = (kiln__wisdom_folder){ shared, true, log, counters, wait_ms, 0 };
    pthread_mutex_init(&wisdom->loading, NULL);
    pthread_mutex_init(&wisdom->lock, NULL);
    kiln__wisdom_memo_init(&wisdom->memo);
    return wisdom;
}

void kiln__wisdom_close(kiln__wisdom *wisdom)
{
    if (wisdom == NULL)
        return;
    kiln__wisdom_view_release(wisdom->view);
    kiln__wisdom_set_fini(&wisdom->kept);
    kiln__text_fini(&wisdom->stamp);
    kiln__wisdom_memo_fini(&wisdom->memo);
    pthread_mutex_destroy(&wisdom->lock);
    pthread_mutex_destroy(&wisdom->loading);
    kiln__free(wisdom);
}
