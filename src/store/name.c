#include "store/name.h"
#include <stdio.h>
#include <string.h>

bool kiln__name_has(const kiln__key *key)
{
    size_t length = strnlen(key->toolchain, sizeof key->toolchain);
    return length > 0 && length < sizeof key->toolchain && !memchr(key->toolchain, '/', length);
}

void kiln__name_format(char out[KILN__NAME_SIZE], const kiln__key *key)
{
    char hex[KILN__DIGEST_HEX];
    kiln__digest_hex(hex, key->digest);
    snprintf(out, KILN__NAME_SIZE, "%s.%s" KILN__NAME_SUFFIX, hex + KILN__NAME_SHARD, key->toolchain);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the key from a file's name. */
bool kiln__name_parse(kiln__key *out, unsigned shard, const char *name)
{
    memset(out, 0, sizeof *out);
    out->digest[0] = (uint8_t)shard;
    for (size_t i = 1; i < KILN__DIGEST_SIZE; i++, name += 2) {
        int high = hex_digit(name[0]), low = high < 0 ? -1 : hex_digit(name[1]);
        if (low < 0)
            return false;
        out->digest[i] = (uint8_t)(high << 4 | low);
    }
    size_t suffix = sizeof KILN__NAME_SUFFIX - 1, length = strlen(name);
    if (name[0] != '.' || length < suffix + 2 || strcmp(name + length - suffix, KILN__NAME_SUFFIX) != 0 ||
        length - suffix - 1 >= sizeof out->toolchain)
        return false;
    memcpy(out->toolchain, name + 1, length - suffix - 1);
    return true;
}

bool kiln__name_is_entry(const char *name)
{
    kiln__key key;
    return kiln__name_parse(&key, 0, name);
}
