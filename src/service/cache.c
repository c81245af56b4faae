#include "service/cache.h"

#include "base/alloc.h"
#include "jit/direct.h"
#include "os/cpu.h"
#include "store/pack.h"
#include <errno.h>
#include <string.h>

#define IMPORT_PATIENCE_NS 2000000000ull

static const char *section_text(const kiln__entry *entry, const char *name)
{
    const kiln__section *section = entry != NULL ? kiln__entry_find(entry, name) : NULL;
    return section != NULL ? section->data : "";
}

static const char *kind_name(const kiln__entry *entry)
{
    if (entry == NULL)
        return "";
    switch (entry->kind) {
    case KILN__ENTRY_KERNEL:
        return "kernel";
    case KILN__ENTRY_READS:
        return "reads";
    case KILN__ENTRY_TOOLCHAIN:
        break;
    }
    return "toolchain";
}

/* The text of a key has a line for the target, if what it stands for has one. */
static void copy_target(char target[KILN__CACHE_TARGET_SIZE], const kiln__entry *entry)
{
    static const char line[] = "\ntarget ";
    const char *found = entry != NULL && entry->kind != KILN__ENTRY_TOOLCHAIN ? strstr(entry->key_text, line) : NULL;
    size_t length = found != NULL ? strcspn(found + sizeof(line) - 1, "\n") : 0;
    if (length >= KILN__CACHE_TARGET_SIZE)
        length = 0;
    if (length > 0)
        memcpy(target, found + sizeof(line) - 1, length);
    target[length] = '\0';
}

void kiln__cache_describe(kiln__cache_entry *out, const kiln__store_item *item)
{
    const kiln__entry *entry = item->entry;
    copy_target(out->target, entry);
    out->info = (kiln_entry_info){
        .size = sizeof(kiln_entry_info),
        .path = item->path,
        .kind = kind_name(entry),
        .spec = section_text(entry, "spec"),
        .target = out->target,
        .toolchain = entry == NULL                          ? ""
                     : entry->kind != KILN__ENTRY_TOOLCHAIN ? entry->key.toolchain
                                                            : section_text(entry, "id"),
        .bytes = item->bytes,
        .used = item->used,
        .status = entry != NULL     ? KILN_OK
                  : item->untrusted ? KILN_EINVAL
                                    : KILN_EIO,
        .problem = item->problem,
    };
}

kiln_status kiln__cache_need_disk(const kiln_service *service, kiln_report *report)
{
    if (service->disk != NULL)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "there is no directory store: %s",
                      service->cache_problem[0] != '\0' ? service->cache_problem : "it is switched off");
}

kiln_status kiln__cache_info(kiln_service *service, kiln_cache_info *out, kiln_report *report)
{
    kiln__disk_info info;
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    out->directory = service->cache_dir;
    int error = kiln__disk_store_info(service->disk, &info);
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot read the store in %s: %s",
                          service->cache_dir, strerror(-error));
    out->cap_bytes = info.cap_bytes;
    out->cap_files = info.cap_files;
    out->temporaries = info.temporaries;
    out->temporary_bytes = info.temporary_bytes;
    return KILN_OK;
}

kiln_status kiln__cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out, kiln_report *report)
{
    kiln__disk_trim trim;
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    int error = kiln__disk_store_trim(service->disk, bytes, files, &trim);
    out->removed = trim.removed;
    out->removed_bytes = trim.removed_bytes;
    out->kept = trim.kept;
    out->kept_bytes = trim.kept_bytes;
    if (error == 0)
        return KILN_OK;
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot trim all of the store in %s: %s",
                      service->cache_dir, strerror(-error));
}

/* Whether an entry means anything on another machine. An object may use instructions that others lack, and comes from a
 * compiler that is known here by its file. */
static bool travels(const kiln__entry *entry)
{
    return entry->kind != KILN__ENTRY_TOOLCHAIN && kiln__entry_find(entry, "object") == NULL;
}

/* What an export takes, and from where. */
typedef struct collection {
    kiln__store *disk;
    kiln_select_fn select;
    void *data;
    kiln_transfer *out;
    kiln__key *keys;
    size_t count, room;
    bool no_memory;
} collection;

static void add_key(collection *self, const kiln__key *key)
{
    if (self->count == self->room) {
        size_t room = self->room > 0 ? 2 * self->room : 256;
        kiln__key *keys = kiln__realloc(self->keys, room * sizeof(*keys));
        if (keys == NULL) {
            self->no_memory = true;
            return;
        }
        self->keys = keys;
        self->room = room;
    }
    self->keys[self->count++] = *key;
}

static int collect(void *data, const kiln__store_item *item)
{
    collection *self = data;
    kiln__cache_entry shown;
    kiln__cache_describe(&shown, item);
    if (item->error == -ENOMEM)
        self->no_memory = true;
    else if (item->entry == NULL)
        self->out->damaged++;
    else if (!travels(item->entry))
        self->out->skipped++;
    else if (self->select == NULL || self->select(self->data, &shown.info) != 0)
        add_key(self, &item->entry->key);
    return self->no_memory;
}

/* An entry that has gone since it was listed is left out; so is one that cannot be read any more, but that is told. */
static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    const collection *self = data;
    int error = kiln__disk_store_read(self->disk, key, out);
    if (error == -ENOMEM)
        return error;
    self->out->damaged += error != 0 && error != -ENOENT;
    return 0;
}

static kiln_status write_pack(collection *self, const char *path, kiln_report *report)
{
    kiln__pack_totals totals;
    int error = kiln__disk_store_visit(self->disk, collect, self);
    if (self->no_memory)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot read the store in %s: %s",
                          kiln__disk_store_root(self->disk), strerror(-error));
    error = kiln__pack_write(&totals, path, self->keys, self->count, fetch, self);
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

kiln_status kiln__cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                               kiln_transfer *out, kiln_report *report)
{
    collection self = { .disk = service->disk, .select = select, .data = data, .out = out };
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    status = write_pack(&self, path, report);
    kiln__free(self.keys);
    return status;
}

/* What an import adds to. */
typedef struct destination {
    kiln_service *service;
    uint64_t patience_ns; /* how long it may still wait for those who compile what it brings lists of */
    kiln_transfer *out;
} destination;

/* Of two lists of what one source has read, one would hide the kernels that only the other leads to. 1, or -errno
 * where what they know together cannot be kept. */
static int merge_lists(kiln__store *disk, kiln__blob *present, kiln__blob *blob)
{
    kiln__blob *merged;
    if (kiln__direct_merge(&merged, present, blob) != KILN_OK)
        return -ENOMEM;
    int error = merged != NULL ? kiln__disk_store_replace(disk, merged) : 0;
    kiln__blob_release(merged);
    return error < 0 ? error : 1;
}

/* 0 kept, 1 there already, or -errno. */
static int add_entry(kiln__store *disk, kiln__blob *blob)
{
    /* A get, for it makes room where what is there is damaged. */
    kiln__blob *present = disk->vtable->get(disk, &blob->entry.key, NULL);
    if (present == NULL)
        return kiln__disk_store_add(disk, blob);
    int result = blob->entry.kind == KILN__ENTRY_READS ? merge_lists(disk, present, blob) : 1;
    kiln__blob_release(present);
    return result;
}

/* Under the lock of those who compile the source, so that no list is lost between reading the one there is and
 * replacing it. Without the lock one may be, which costs a compile: that is better than to wait for long. */
static int add_list(destination *to, kiln__blob *blob)
{
    kiln__hostlock *lock = &to->service->hostlock;
    kiln__hostlock_hold hold;
    uint64_t start = kiln__cpu_now_ns();
    bool held = kiln__hostlock_take_quietly(lock, blob->entry.key.digest, (uint32_t)(to->patience_ns / 1000000), &hold);
    uint64_t waited = kiln__cpu_now_ns() - start;
    to->patience_ns -= waited < to->patience_ns ? waited : to->patience_ns;
    int result = add_entry(to->service->disk, blob);
    if (held)
        kiln__hostlock_give(&hold);
    return result;
}

/* 0, or -errno if the entry should have been kept and could not be. */
static int import_entry(destination *to, kiln__blob *blob)
{
    int result = !travels(&blob->entry)                  ? -EFBIG
                 : blob->entry.kind == KILN__ENTRY_READS ? add_list(to, blob)
                                                         : add_entry(to->service->disk, blob);
    if (result == -EFBIG)
        to->out->skipped++;
    else if (result == 1)
        to->out->present++;
    else if (result < 0)
        return result;
    to->out->entries += result == 0;
    to->out->bytes += result == 0 ? blob->length : 0;
    return 0;
}

kiln_status kiln__cache_import(kiln_service *service, const char *path, kiln_transfer *out, kiln_report *report)
{
    char problem[256];
    kiln__store *pack;
    destination to = { service, IMPORT_PATIENCE_NS, out };
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    int error = kiln__pack_store_open(&pack, path, NULL, &service->store_counters, problem, sizeof(problem));
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    if (error != 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, -error, "cannot use the pack %s: %s", path, problem);
    for (size_t i = 0; i < kiln__pack_store_count(pack) && error == 0; i++) {
        kiln__blob *blob;
        error = kiln__pack_store_at(pack, i, &blob);
        if (error == 0)
            error = import_entry(&to, blob);
        else if (error != -ENOMEM)
            error = 0;
        out->damaged += blob == NULL && error == 0;
        kiln__blob_release(blob);
    }
    pack->vtable->close(pack);
    if (error == 0)
        return KILN_OK;
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot add to the store in %s: %s",
                      service->cache_dir, strerror(-error));
}
