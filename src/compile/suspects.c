#include "compile/suspects.h"

#include "os/file.h"
#include "source/source.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void kiln__suspects_init(kiln__suspects *suspects, const char *directory)
{
    memset(suspects, 0, sizeof(*suspects));
    pthread_mutex_init(&suspects->lock, NULL);
    suspects->directory = directory;
}

void kiln__suspects_fini(kiln__suspects *suspects)
{
    pthread_mutex_destroy(&suspects->lock);
}

/* A worker that died tells nobody what it has read, so that nothing is known of a source that reads files of its author's. */
bool kiln__suspect_of(kiln__suspect *out, const kiln__unit *unit)
{
    kiln__text all = { 0 };
    char hex[KILN__DIGEST_HEX];
    out->apt = unit->own == NULL || unit->own->directories == 0;
    if (unit->own != NULL) {
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

static bool is_row_of(const kiln__suspects *suspects, int i, const uint8_t digest[KILN__DIGEST_SIZE])
{
    return suspects->rows[i].strikes > 0 && memcmp(suspects->rows[i].digest, digest, KILN__DIGEST_SIZE) == 0;
}

/* The row of a text, or else the one that it may have. */
static int find(const kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    int oldest = 0;
    for (int i = 0; i < KILN__SUSPECTS_MAX; i++) {
        if (is_row_of(suspects, i, digest))
            return i;
        if (suspects->rows[i].when < suspects->rows[oldest].when)
            oldest = i;
    }
    return oldest;
}

bool kiln__suspects_is_condemned(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&suspects->lock);
    int i = find(suspects, digest);
    bool condemned = is_row_of(suspects, i, digest) && suspects->rows[i].strikes >= KILN__SUSPECT_STRIKES;
    if (condemned)
        suspects->rows[i].when = ++suspects->clock;
    pthread_mutex_unlock(&suspects->lock);
    return condemned;
}

void kiln__suspects_accuse(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&suspects->lock);
    int i = find(suspects, digest);
    if (!is_row_of(suspects, i, digest)) {
        memcpy(suspects->rows[i].digest, digest, KILN__DIGEST_SIZE);
        suspects->rows[i].strikes = 0;
    }
    suspects->rows[i].strikes++;
    suspects->rows[i].when = ++suspects->clock;
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
