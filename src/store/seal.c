#include "store/seal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "os/file.h"
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK "KILNSEAL"
enum { MARK_SIZE = 8, VERSION = 1, CODE = KILN__SEAL_SIZE - crypto_auth_hmacsha256_BYTES };

/* ---- Secrets */

static bool add_secret(kiln__secrets *out, const char *line, size_t length, char *problem, size_t room)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] < ' ' || line[i] > '~')
            return kiln__text_copy(problem, room, "a secret has a character that is not printable ASCII"), false;
    if (length < KILN__SECRET_LEAST || length > KILN__SECRET_MOST)
        return snprintf(problem, room, "a secret has %zu characters: expected %d to %d", length, KILN__SECRET_LEAST,
                        KILN__SECRET_MOST),
               false;
    if (out->count == KILN__SECRETS_MAX)
        return snprintf(problem, room, "it has more than %d secrets", KILN__SECRETS_MAX), false;
    memcpy(out->text[out->count], line, length);
    out->length[out->count++] = length;
    return true;
}

static bool read_lines(kiln__secrets *out, const char *text, size_t size, char *problem, size_t room)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = (end != NULL ? (size_t)(end - text) : size) - at;
        if (length > 0 && !add_secret(out, text + at, length, problem, room))
            return false;
        at += length + 1;
    }
    if (out->count == 0)
        kiln__text_copy(problem, room, "it has no secret");
    return out->count > 0;
}

bool kiln__secrets_read(kiln__secrets *out, const char *path, char *problem, size_t room)
{
    enum { LIMIT = KILN__SECRETS_MAX * (KILN__SECRET_MOST + 16) };
    void *text = NULL;
    size_t size = 0;
    struct stat status;
    memset(out, 0, sizeof(*out));
    const int error = kiln__file_read(&text, &size, AT_FDCWD, path, 0, LIMIT, &status);
    bool good = false;
    if (error != 0)
        snprintf(problem, room, "%s", strerrordesc_np(-error));
    else if (status.st_uid != geteuid() && status.st_uid != 0)
        snprintf(problem, room, "it is owned by user %u, expected %u or root", (unsigned)status.st_uid,
                 (unsigned)geteuid());
    else if ((status.st_mode & 077) != 0)
        snprintf(problem, room, "others may read or write it: chmod 600");
    else
        good = read_lines(out, text, size, problem, room);
    if (text != NULL)
        sodium_memzero(text, size);
    kiln__free(text);
    if (!good)
        kiln__secrets_forget(out);
    return good;
}

void kiln__secrets_forget(kiln__secrets *secrets)
{
    sodium_memzero(secrets, sizeof(*secrets));
}

/* ---- Seals */

static void make_code(uint8_t out[crypto_auth_hmacsha256_BYTES], const kiln__secrets *secrets, size_t i,
                      const char *name, const void *bytes, size_t length)
{
    static const char purpose[] = "kiln remote entry " MARK " 1\n";
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, (const unsigned char *)secrets->text[i], secrets->length[i]);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)purpose, sizeof(purpose) - 1);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)name, strlen(name) + 1); /* its NUL ends it */
    crypto_auth_hmacsha256_update(&state, bytes, length);
    crypto_auth_hmacsha256_final(&state, out);
}

void kiln__seal_make(uint8_t out[KILN__SEAL_SIZE], const kiln__secrets *secrets, const char *name, const void *bytes,
                     size_t length)
{
    memset(out, 0, KILN__SEAL_SIZE);
    memcpy(out, MARK, MARK_SIZE);
    out[MARK_SIZE] = VERSION;
    make_code(out + CODE, secrets, 0, name, bytes, length);
}

bool kiln__seal_is(const void *bytes, size_t length)
{
    static const uint8_t zeros[CODE - MARK_SIZE - 1];
    const uint8_t *seal = bytes;
    return length >= KILN__SEAL_SIZE && memcmp(seal, MARK, MARK_SIZE) == 0 && seal[MARK_SIZE] == VERSION &&
           memcmp(seal + MARK_SIZE + 1, zeros, sizeof(zeros)) == 0;
}

bool kiln__seal_holds(const kiln__secrets *secrets, const char *name, const void *bytes, size_t length)
{
    uint8_t code[crypto_auth_hmacsha256_BYTES];
    const uint8_t *seal = bytes;
    bool holds = false;
    for (size_t i = 0; i < secrets->count && kiln__seal_is(bytes, length); i++) {
        make_code(code, secrets, i, name, seal + KILN__SEAL_SIZE, length - KILN__SEAL_SIZE);
        holds |= sodium_memcmp(code, seal + CODE, sizeof(code)) == 0;
    }
    return holds;
}
