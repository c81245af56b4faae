/* Digests: BLAKE2b-256 (libsodium) for keys, XXH3-128 (xxHash) for checksums. */
#ifndef KILN_BASE_DIGEST_H
#define KILN_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum {
    KILN__DIGEST_SIZE = 32,
    KILN__DIGEST_HEX = 65, /* hexadecimal digits and the NUL */
    KILN__CHECKSUM_SIZE = 16
};

/* BLAKE2b-256 of bytes. Any thread. */
void kiln__digest(uint8_t out[KILN__DIGEST_SIZE], const void *bytes, size_t length);

/* Takes bytes into a digest of parts, each of which covers those before it. Begins with zeros. Any thread. */
void kiln__digest_fold(uint8_t chain[KILN__DIGEST_SIZE], const void *bytes, size_t length);

/* Lower-case hexadecimal text of a digest. */
void kiln__digest_hex(char out[KILN__DIGEST_HEX], const uint8_t digest[KILN__DIGEST_SIZE]);

/* XXH3-128 of bytes in its canonical (big-endian) form, the same on every machine. Detects accidents, not attacks. */
void kiln__checksum(uint8_t out[KILN__CHECKSUM_SIZE], const void *bytes, size_t length);

/* XXH3-64 of bytes, for tables within a process. */
uint64_t kiln__hash(const void *bytes, size_t length);

#endif
