#include "jit/worker/pool.h"

#include "base/alloc.h"
#include "base/table.h"
#include "os/cpu.h"
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* A little longer than it takes a worker to end itself. */
#define IDLE_NS ((uint64_t)70 * 1000000000)

void kiln__workerset_init(kiln__workerset *self, const char *program, const kiln__worker_limits *limits,
                          const kiln__log *log)
{
    memset(self, 0, sizeof(*self));
    self->program = program;
    self->limits = *limits;
    self->log = log;
    self->idle_max = kiln__cpu_count();
    if (self->idle_max < 2) /* one for source from elsewhere, one for Kiln's own */
        self->idle_max = 2;
    pthread_mutex_init(&self->lock, NULL);
}

/* ---- Directories */

/* A sandbox holds directories and not their names, so that one which is removed and made anew would be closed to a
 * worker of before. An inode that a sandbox holds is not given to another directory. */
void kiln__workerset_mark(kiln__text *out, const kiln__list *places)
{
    const char *name = NULL, *path;
    while (places != NULL && kiln__list_next_pair(places, &name, &path)) {
        struct stat status;
        if (stat(path, &status) != 0)
            status = (struct stat){ 0 };
        kiln__text_printf(out, "%llu:%llu\n", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    }
}

static bool is_equal(const kiln__text *a, const kiln__text *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

static bool has_places(const kiln__worker *which, const kiln__list *places, const kiln__text *marks)
{
    return is_equal(&which->places.bytes, &places->bytes) && is_equal(&which->marks, marks);
}

/* ---- Those there are */

void kiln__worker_free(kiln__worker *which)
{
    kiln__list_fini(&which->places);
    kiln__text_fini(&which->marks);
    kiln__free(which);
}

void kiln__worker_end(kiln__worker *which)
{
    kiln__child_end(&which->child);
    kiln__worker_free(which);
}

/* Takes the idle ones below the first `keep`, and those that have been so for too long, out of the list. With the lock
 * held. */
static kiln__worker *take_superfluous(kiln__workerset *self, unsigned keep)
{
    uint64_t now = kiln__cpu_now_ns();
    kiln__worker **at = &self->idle;
    unsigned kept = 0;
    while (*at != NULL && kept < keep && now - (*at)->idle_since < IDLE_NS) {
        at = &(*at)->next;
        kept++;
    }
    kiln__worker *rest = *at;
    *at = NULL;
    self->idle_count = kept;
    return rest;
}

static void end_all(kiln__worker *list)
{
    kiln__worker *which, *next;
    LL_FOREACH_SAFE (list, which, next)
        kiln__worker_end(which);
}

static kiln__worker *find_idle(const kiln__workerset *self, const kiln__list *places, const kiln__text *marks,
                               bool strange)
{
    kiln__worker *which;
    LL_FOREACH (self->idle, which)
        if (which->strange == strange && (places == NULL || has_places(which, places, marks)))
            return which;
    return NULL;
}

kiln__worker *kiln__workerset_take(kiln__workerset *self, const kiln__list *places, const kiln__text *marks,
                                   bool foreign)
{
    pthread_mutex_lock(&self->lock);
    kiln__worker *superfluous = take_superfluous(self, self->idle_max);
    kiln__worker *taken = find_idle(self, places, marks, foreign);
    if (taken == NULL && foreign)
        taken = find_idle(self, places, marks, false);
    if (taken != NULL) {
        LL_DELETE(self->idle, taken);
        self->idle_count--;
    }
    pthread_mutex_unlock(&self->lock);
    end_all(superfluous);
    return taken;
}

void kiln__workerset_give_back(kiln__workerset *self, kiln__worker *which)
{
    pthread_mutex_lock(&self->lock);
    which->idle_since = kiln__cpu_now_ns();
    LL_PREPEND(self->idle, which);
    self->idle_count++;
    kiln__worker *superfluous = take_superfluous(self, self->idle_max);
    pthread_mutex_unlock(&self->lock);
    end_all(superfluous);
}

/* ---- Starting */

static kiln__worker *new_worker(const kiln__list *places, const kiln__text *marks)
{
    kiln__worker *fresh = kiln__calloc(1, sizeof(*fresh));
    if (fresh == NULL || places == NULL)
        return fresh;
    kiln__text_append_bytes(&fresh->marks, kiln__text_string(marks), marks->length);
    if (!fresh->marks.failed && kiln__list_read(&fresh->places, places->bytes.data, places->bytes.length))
        return fresh;
    kiln__worker_free(fresh);
    return NULL;
}

kiln_status kiln__workerset_start(kiln__workerset *self, const char *nvrtc, const kiln__list *places,
                                  const kiln__text *marks, kiln__toolchain *facts, kiln__worker **out,
                                  kiln_report *report)
{
    char program[PATH_MAX];
    *out = NULL;
    kiln_status status = kiln__worker_find(self->program, program, sizeof(program), report);
    if (status != KILN_OK)
        return status;
    kiln__worker *fresh = new_worker(places, marks);
    if (fresh == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    status = kiln__worker_start(&fresh->child, program, &self->limits, report);
    if (status != KILN_OK) {
        kiln__worker_free(fresh);
        return status;
    }
    atomic_fetch_add(&self->starts, 1);
    status = kiln__worker_open(&fresh->child, program, nvrtc, &fresh->places, facts, report);
    if (status != KILN_OK) {
        kiln__worker_end(fresh);
        return status;
    }
    kiln__log_line(self->log, KILN_LOG_DEBUG, "started compile worker %s, process %d", program, (int)fresh->child.pid);
    *out = fresh;
    return KILN_OK;
}

void kiln__workerset_fini(kiln__workerset *self)
{
    end_all(self->idle);
    pthread_mutex_destroy(&self->lock);
}
