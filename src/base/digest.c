/* Digests by libsodium and checksums by xxHash. */
#include "base/digest.h"

#include <sodium.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(KILN__DIGEST_SIZE == crypto_generichash_BYTES, "the digest is BLAKE2b's default size");
_Static_assert(KILN__CHECKSUM_SIZE == sizeof(XXH128_canonical_t), "the checksum is a canonical XXH3-128");

/* No sodium_init: hashing does not need it, and the host's libsodium is the host's to start. */
void kiln__digest(uint8_t out[KILN__DIGEST_SIZE], const void *bytes, size_t length)
{
    crypto_generichash(out, KILN__DIGEST_SIZE, bytes, length, NULL, 0);
}

void kiln__digest_fold(uint8_t chain[KILN__DIGEST_SIZE], const void *bytes, size_t length)
{
    uint8_t both[2 * KILN__DIGEST_SIZE];
    memcpy(both, chain, KILN__DIGEST_SIZE);
    kiln__digest(both + KILN__DIGEST_SIZE, bytes, length);
    kiln__digest(chain, both, sizeof(both));
}

void kiln__digest_hex(char out[KILN__DIGEST_HEX], const uint8_t digest[KILN__DIGEST_SIZE])
{
    sodium_bin2hex(out, KILN__DIGEST_HEX, digest, KILN__DIGEST_SIZE);
}

void kiln__checksum(uint8_t out[KILN__CHECKSUM_SIZE], const void *bytes, size_t length)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
    memcpy(out, canonical.digest, KILN__CHECKSUM_SIZE);
}

uint64_t kiln__hash(const void *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}
