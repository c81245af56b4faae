#include "jit/worker/suspects.h"

#include "base/alloc.h"
#include "os/file.h"
#include "source/source.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct kiln__suspect_row {
    uint8_t digest[KILN__DIGEST_SIZE];
    unsigned strikes;
    uint64_t when;
};

void kiln__suspects_init(kiln__suspects *suspects, const char *directory)
{
    *suspects = (kiln__suspects){ .directory = directory };
    pthread_mutex_init(&suspects->lock, NULL);
}

void kiln__suspects_fini(kiln__suspects *suspects)
{
    pthread_mutex_destroy(&suspects->lock);
    kiln__free(suspects->rows);
}

/* A worker that died tells nobody what it has read, so that nothing is known of a source that reads files of its
 * author's. */
bool kiln__suspect_of(kiln__suspect *out, const kiln__unit *unit)
{
    kiln__text all = { 0 };
    char hex[KILN__DIGEST_HEX];
    out->apt = unit->directories == 0;
    if (kiln__unit_is_source(unit)) {
        kiln__source_key_text(&all, unit, "");
    } else {
        kiln__digest(out->digest, unit->source, unit->source_length);
        kiln__digest_hex(hex, out->digest);
        kiln__text_printf(&all, "%s %s", unit->target.name, hex);
    }
    bool made = !all.failed;
    if (made)
        kiln__digest(out->digest, all.data, all.length);
    kiln__text_fini(&all);
    return made;
}

/* The row of a text, -1 if it has none. */
static int find(const kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    for (int i = 0; i < suspects->count; i++)
        if (memcmp(suspects->rows[i].digest, digest, KILN__DIGEST_SIZE) == 0)
            return i;
    return -1;
}

/* A row for a new suspect, if need be that of the one heard of longest ago. -1: out of memory. */
static int make_row(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    int row = 0;
    if (suspects->rows == NULL && (suspects->rows = kiln__calloc(KILN__SUSPECTS_MAX, sizeof(*suspects->rows))) == NULL)
        return -1;
    if (suspects->count < KILN__SUSPECTS_MAX)
        row = suspects->count++;
    else
        for (int i = 1; i < suspects->count; i++)
            if (suspects->rows[i].when < suspects->rows[row].when)
                row = i;
    memcpy(suspects->rows[row].digest, digest, KILN__DIGEST_SIZE);
    suspects->rows[row].strikes = 0;
    return row;
}

bool kiln__suspects_is_condemned(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&suspects->lock);
    int i = find(suspects, digest);
    bool condemned = i >= 0 && suspects->rows[i].strikes >= KILN__SUSPECT_STRIKES;
    if (condemned)
        suspects->rows[i].when = ++suspects->clock;
    pthread_mutex_unlock(&suspects->lock);
    return condemned;
}

void kiln__suspects_accuse(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&suspects->lock);
    int i = find(suspects, digest);
    if (i < 0)
        i = make_row(suspects, digest);
    if (i >= 0) {
        suspects->rows[i].strikes++;
        suspects->rows[i].when = ++suspects->clock;
    }
    pthread_mutex_unlock(&suspects->lock);
}

bool kiln__suspects_keep(const kiln__suspects *suspects, const char *source, size_t length, char *path, size_t size)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX], name[KILN__DIGEST_HEX + sizeof(".cu")];
    path[0] = '\0';
    if (suspects->directory == NULL || suspects->directory[0] == '\0')
        return false;
    kiln__digest(digest, source, length);
    kiln__digest_hex(hex, digest);
    snprintf(name, sizeof(name), "%s.cu", hex);
    int directory = kiln__file_make_directory(suspects->directory);
    int error = directory < 0 ? directory : kiln__file_publish(directory, name, source, length, true);
    if (directory >= 0)
        close(directory);
    if (error < 0)
        snprintf(path, size, "cannot keep the source in %s: %s", suspects->directory, strerrordesc_np(-error));
    else
        snprintf(path, size, "%s/%s", suspects->directory, name);
    return error == 0;
}
