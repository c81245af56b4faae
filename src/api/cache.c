/* The public functions of <kiln/cache.h>: the entries of the user's store, trimming it, and packs. */
#include "api/structs.h"
#include "os/cpu.h"
#include "service/service.h"
#include "store/pack.h"
#include "store/remote.h"
#include <errno.h>
#include <string.h>

#define IMPORT_PATIENCE_NS 2000000000ull

static kiln_status fail_store(const kiln_service *service, const char *what, int error, kiln_report *report)
{
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot %s the store in %s: %s", what,
                      service->cache_dir, strerror(-error));
}

/* ---- Entries as the host is told of them */

/* An entry's text for the callback. */
typedef struct shown_entry {
    kiln_entry_info info; /* borrows `target` and the item */
    char target[32];
} shown_entry;

static const char *section_text(const kiln__entry *entry, const char *name)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    return section != NULL ? section->data : "";
}

/* The text of a key has a line for the target, if its entry has one. */
static void copy_target(char *target, size_t size, const kiln__entry *entry)
{
    static const char line[] = "\ntarget ";
    const char *found = entry->kind != KILN__ENTRY_TOOLCHAIN ? strstr(entry->key_text, line) : NULL;
    size_t length = found != NULL ? strcspn(found + sizeof(line) - 1, "\n") : 0;
    if (length > 0 && length < size)
        memcpy(target, found + sizeof(line) - 1, length);
}

static void describe_entry(shown_entry *out, const kiln__store_item *item)
{
    static const char *const kinds[] = {
        [KILN__ENTRY_KERNEL] = "kernel", [KILN__ENTRY_READS] = "reads", [KILN__ENTRY_TOOLCHAIN] = "toolchain"
    };
    const kiln__entry *entry = item->entry;
    *out = (shown_entry){ .info = { .size = sizeof(kiln_entry_info),
                                    .path = item->path,
                                    .kind = "",
                                    .spec = "",
                                    .target = out->target,
                                    .toolchain = "",
                                    .bytes = item->bytes,
                                    .used = item->used,
                                    .status = item->untrusted ? KILN_EINVAL : KILN_EIO,
                                    .problem = item->problem } };
    if (entry == NULL)
        return;
    copy_target(out->target, sizeof(out->target), entry);
    out->info.kind = kinds[entry->kind];
    out->info.spec = section_text(entry, "spec");
    out->info.toolchain = entry->kind != KILN__ENTRY_TOOLCHAIN ? entry->key.toolchain : section_text(entry, "id");
    out->info.status = KILN_OK;
}

typedef struct visitor {
    kiln_entry_fn fn; /* or a kiln_select_fn, which is of the same type */
    void *data;
} visitor;

static int show_item(void *data, const kiln__store_item *item)
{
    const visitor *self = data;
    shown_entry shown;
    describe_entry(&shown, item);
    return self->fn(self->data, &shown.info);
}

kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL && fn != NULL, "service and fn must not be NULL");
    visitor self = { fn, data };
    kiln_status status = kiln__service_need_disk(service, report);
    int error = status == KILN_OK ? kiln__disk_store_visit(service->disk, show_item, &self) : 0;
    return error < 0 ? fail_store(service, "read", error, report) : status;
}

/* ---- Sizes and removal */

kiln_status kiln_cache_get_info(kiln_service *service, kiln_cache_info *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL && out != NULL && out->size >= sizeof(out->size),
                "service and out must not be NULL, out->size set");
    kiln_cache_info full = { .size = sizeof(full), .directory = service->disk != NULL ? service->cache_dir : NULL };
    kiln_status status = kiln__service_need_disk(service, report);
    int error = status == KILN_OK ? kiln__disk_store_info(service->disk, &full) : 0;
    if (error < 0)
        status = fail_store(service, "read", error, report);
    kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_cache_purge(kiln_service *service, kiln_select_fn select, void *data, uint64_t *removed,
                             kiln_report *report)
{
    KILN__NO_CANCEL;
    uint64_t ignored, *count = removed != NULL ? removed : &ignored;
    *count = 0;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL, "service must not be NULL");
    visitor self = { select, data };
    char problem[sizeof report->message];
    kiln_status status = kiln__service_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    int error = kiln__disk_store_purge(service->disk, select != NULL ? show_item : NULL, &self, count, problem,
                                       sizeof(problem));
    if (error == 0)
        return KILN_OK;
    return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error,
                      "cannot remove %s; check its owner and mode, or remove it by hand", problem);
}

kiln_status kiln_cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL, "service must not be NULL");
    kiln_trim full = { .size = sizeof(full) };
    kiln_status status = kiln__service_need_disk(service, report);
    int error = status == KILN_OK ? kiln__disk_store_trim(service->disk, bytes, files, &full) : 0;
    kiln__hand_out(out, &full, sizeof(full));
    return error != 0 ? fail_store(service, "trim all of", error, report) : status;
}

/* ---- The remote */

kiln_status kiln_push_wait(kiln_service *service, uint32_t wait_ms, kiln_push_fn failed, void *data,
                           kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL, "service must not be NULL");
    const kiln_status status = kiln__service_need_remote(service, report);
    if (status != KILN_OK)
        return status;
    if (!kiln__remote_is_signed(service->tiers.remote))
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0,
                          "there is no secret to sign what is pushed: name a file of one in KILN_REMOTE_SECRET");
    if (kiln__remote_wait(service->tiers.remote, wait_ms, failed, data) != 0)
        return kiln__fail(report, KILN_ETIMEDOUT, KILN__STAGE_STORE, 0, "pushes to the remote are not done after %u ms",
                          (unsigned)wait_ms);
    return KILN_OK;
}

/* ---- Packs */

/* The entries and totals of an export. */
typedef struct exporter {
    kiln__store *disk;
    kiln_select_fn select;
    void *data;
    kiln_transfer *out;
    kiln__text keys; /* the bytes of kiln__key, one after the other */
    bool no_memory;
} exporter;

static int collect_key(void *data, const kiln__store_item *item)
{
    exporter *self = data;
    shown_entry shown;
    describe_entry(&shown, item);
    self->no_memory = item->error == -ENOMEM;
    if (item->entry == NULL)
        self->out->damaged += !self->no_memory;
    else if (!kiln__entry_travels(item->entry))
        self->out->skipped++;
    else if (self->select == NULL || self->select(self->data, &shown.info) != 0)
        kiln__text_append_bytes(&self->keys, &item->entry->key, sizeof(item->entry->key));
    self->no_memory |= self->keys.failed;
    return self->no_memory;
}

/* An entry that has gone since it was listed is left out. So is one that cannot be read any more, but that one counts
 * as damaged. */
static int fetch_entry(void *data, const kiln__key *key, kiln__blob **out)
{
    const exporter *self = data;
    int error = kiln__disk_store_read(self->disk, key, out);
    if (error == -ENOMEM)
        return error;
    self->out->damaged += error != 0 && error != -ENOENT;
    return 0;
}

static kiln_status write_pack(exporter *self, const char *path, kiln_report *report)
{
    kiln__pack_totals totals;
    int error = kiln__pack_write(&totals, path, (kiln__key *)(void *)self->keys.data,
                                 self->keys.length / sizeof(kiln__key), fetch_entry, self);
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    if (error == -EINVAL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, EINVAL,
                          "cannot write a pack to '%s': expected the name of a file, or of none yet", path);
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot write the pack %s: %s", path,
                          strerror(-error));
    self->out->entries = totals.entries;
    self->out->bytes = totals.bytes;
    return KILN_OK;
}

kiln_status kiln_cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                              kiln_transfer *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL && path != NULL,
                "service and path must not be NULL");
    kiln_transfer full = KILN_INIT(kiln_transfer);
    exporter self = { .disk = service->disk, .select = select, .data = data, .out = &full };
    kiln_status status = kiln__service_need_disk(service, report);
    if (status == KILN_OK) {
        int error = kiln__disk_store_visit(service->disk, collect_key, &self);
        error = self.no_memory ? -ENOMEM : error;
        status = error < 0 ? fail_store(service, "read", error, report) : write_pack(&self, path, report);
    }
    kiln__text_fini(&self.keys);
    kiln__hand_out(out, &full, sizeof(full));
    return status;
}

/* The store and the totals of an import. */
typedef struct importer {
    kiln_service *service;
    uint64_t patience_ns; /* for locks of sources that are being compiled */
    kiln_transfer *out;
    kiln__text keys; /* of the pack's entries that are for this machine: the bytes of kiln__key, one after the other */
} importer;

/* Keeps the union of two lists of the files that a source has read: either list alone would hide kernels that only the
 * other one leads to. 1, or -errno. */
static int merge_lists(kiln__store *disk, kiln__blob *present, kiln__blob *blob)
{
    kiln__blob *merged;
    if (kiln__reads_merge(&merged, present, blob) != KILN_OK)
        return -ENOMEM;
    int error = merged != NULL ? disk->vtable->put(disk, merged, true) : 0;
    kiln__blob_release(merged);
    return error < 0 ? error : 1;
}

/* 0 kept, 1 there already, or -errno. */
static int add_entry(kiln__store *disk, kiln__blob *blob)
{
    /* A get, because it removes a damaged entry. */
    kiln__blob *present = disk->vtable->get(disk, &blob->entry.key, false, NULL);
    if (present == NULL)
        return disk->vtable->put(disk, blob, false);
    int result = blob->entry.kind == KILN__ENTRY_READS ? merge_lists(disk, present, blob) : 1;
    kiln__blob_release(present);
    return result;
}

/* Takes the lock under which the source is compiled, so that no list is lost between reading the one there is and
 * replacing it. Without the lock one may be lost, which costs a compile. That is better than a long wait. */
static int add_list(importer *self, kiln__blob *blob)
{
    kiln__keylock_hold hold;
    uint64_t start = kiln__cpu_now_ns();
    bool held = kiln__keylock_take_quietly(&self->service->keylock, blob->entry.key.digest,
                                           (uint32_t)(self->patience_ns / 1000000), &hold);
    uint64_t waited = kiln__cpu_now_ns() - start;
    self->patience_ns -= waited < self->patience_ns ? waited : self->patience_ns;
    int result = add_entry(self->service->disk, blob);
    if (held)
        kiln__keylock_give(&hold);
    return result;
}

/* 0, or -errno if the entry should have been kept and could not be. */
static int import_entry(importer *self, kiln__blob *blob)
{
    if (kiln__entry_travels(&blob->entry))
        kiln__text_append_bytes(&self->keys, &blob->entry.key, sizeof(blob->entry.key));
    int result = !kiln__entry_travels(&blob->entry)      ? -EFBIG
                 : blob->entry.kind == KILN__ENTRY_READS ? add_list(self, blob)
                                                         : add_entry(self->service->disk, blob);
    self->out->skipped += !kiln__entry_travels(&blob->entry);
    self->out->present += result == 1;
    self->out->entries += result == 0;
    self->out->bytes += result == 0 ? blob->length : 0;
    return result < 0 && result != -EFBIG ? result : 0;
}

/* Counts the wanted entries that the store does not have at the end: the caps may have evicted what was added. 0 or
 * -ENOMEM. */
static int count_lost(const importer *self, size_t *wanted, size_t *lost)
{
    const kiln__key *keys = (const kiln__key *)(const void *)self->keys.data;
    *wanted = self->keys.length / sizeof(kiln__key);
    *lost = 0;
    for (size_t i = 0; i < *wanted; i++) {
        kiln__blob *blob;
        int error = kiln__disk_store_read(self->service->disk, &keys[i], &blob);
        kiln__blob_release(blob);
        if (error == -ENOMEM)
            return error;
        *lost += error != 0;
    }
    return self->keys.failed ? -ENOMEM : 0;
}

static kiln_status import_pack(importer *self, const char *path, kiln_report *report)
{
    char problem[KILN__STORE_REFUSAL];
    size_t wanted, lost;
    kiln__store *pack;
    int error = kiln__pack_store_open(&pack, path, NULL, &self->service->store_counters, problem, sizeof(problem));
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    if (error != 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, -error, "cannot use the pack %s: %s", path, problem);
    for (size_t i = 0; i < kiln__pack_store_count(pack) && error == 0; i++) {
        kiln__blob *blob;
        error = kiln__pack_store_at(pack, i, &blob);
        if (error == 0)
            error = import_entry(self, blob);
        else if (error != -ENOMEM)
            error = 0;
        self->out->damaged += blob == NULL && error == 0;
        kiln__blob_release(blob);
    }
    pack->vtable->close(pack);
    if (error == 0)
        error = count_lost(self, &wanted, &lost);
    if (error != 0)
        return fail_store(self->service, "add to", error, report);
    if (lost == 0)
        return KILN_OK;
    kiln__disk_store_refusal(self->service->disk, problem);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, 0, "%zu of %zu entries are not in the store %s: %s", lost,
                      wanted, self->service->cache_dir, problem);
}

kiln_status kiln_cache_import(kiln_service *service, const char *path, kiln_transfer *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL && path != NULL,
                "service and path must not be NULL");
    kiln_transfer full = KILN_INIT(kiln_transfer);
    importer self = { .service = service, .patience_ns = IMPORT_PATIENCE_NS, .out = &full };
    kiln_status status = kiln__service_need_disk(service, report);
    if (status == KILN_OK)
        status = import_pack(&self, path, report);
    kiln__text_fini(&self.keys);
    kiln__hand_out(out, &full, sizeof(full));
    return status;
}
