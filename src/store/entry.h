/* The form of one cached result: self-describing bytes, the same on disk, in memory and in a pack. docs/cache-format.md
 * shows the layout. Pure: bytes in, bytes out. */
#ifndef KILN_STORE_ENTRY_H
#define KILN_STORE_ENTRY_H

#include "base/digest.h"
#include "base/report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KILN__ENTRY_VERSION = 1,
    KILN__ENTRY_NAME_SIZE = 16, /* a section's name with its NUL */
    KILN__ENTRY_MAX_SECTIONS = 16,
    KILN__ENTRY_TOOLCHAIN_SIZE = 64, /* a toolchain id with its NUL */
    KILN__ENTRY_HEAD = 1024          /* bytes that hold the first line of any entry's key text */
};
#define KILN__ENTRY_MAX_BYTES ((size_t)256 << 20)

/* The contents of an entry. Values are part of the format. */
typedef enum kiln__entry_kind {
    KILN__ENTRY_KERNEL = 1,    /* sections: spec, cubin and ptx or object, names, functions, log */
    KILN__ENTRY_TOOLCHAIN = 2, /* facts about a compiler's file: id, targets, ... */
    KILN__ENTRY_READS = 3      /* files that compiles of a source have read: spec, and lists reads-0, reads-1, ... */
} kiln__entry_kind;

/* The key of a result: everything that can change it. The digest covers unit, options and target. The toolchain stands
 * apart, so that a machine without a compiler can take an entry of any toolchain. */
typedef struct kiln__key {
    uint8_t digest[KILN__DIGEST_SIZE];
    /* Letters, digits, '.', '-', '_': "nvrtc-13.0.88-36424714". Empty only in a lookup, where it means any. */
    char toolchain[KILN__ENTRY_TOOLCHAIN_SIZE];
} kiln__key;

bool kiln__key_equal(const kiln__key *a, const kiln__key *b);

typedef struct kiln__section {
    char name[KILN__ENTRY_NAME_SIZE];
    const void *data;
    size_t length;
} kiln__section;

/* An entry's contents, all pointers borrowed. */
typedef struct kiln__entry {
    kiln__entry_kind kind;
    kiln__key key;
    const char *key_text; /* the full text that key.digest is the digest of; terminated */
    size_t key_text_length;
    kiln__section sections[KILN__ENTRY_MAX_SECTIONS];
    size_t section_count;
} kiln__entry;

/* Appends a section to an entry being put together; data is borrowed. False when there is no room, or when the name is
 * empty, too long, taken, or has characters that a toolchain id may not have. */
bool kiln__entry_add(kiln__entry *entry, const char *name, const void *data, size_t length);

/* The section of that name or NULL. Its bytes are followed by a NUL when the entry came from kiln__entry_decode. */
const kiln__section *kiln__entry_find(const kiln__entry *entry, const char *name);

/* Whether an entry means anything on another machine. An object may use instructions that others lack, and comes from a
 * compiler that is known by its file. */
bool kiln__entry_travels(const kiln__entry *entry);

/* Writes the entry's bytes: deterministic, no time and no path in them. *out: kiln__free, NULL on failure. KILN_ENOMEM;
 * KILN_EINVAL for an entry that decode would refuse: an empty toolchain, a digest that is not the key text's, a NUL in
 * the key text, a bad section, more than KILN__ENTRY_MAX_BYTES. */
kiln_status kiln__entry_encode(void **out, size_t *length, const kiln__entry *entry);

/* The reason why bytes are not the wanted entry. Each is a miss. */
typedef enum kiln__entry_fault {
    KILN__ENTRY_GOOD = 0,
    KILN__ENTRY_SHORT, /* shorter or longer than it says, or than any entry */
    KILN__ENTRY_CHECKSUM,
    KILN__ENTRY_FORMAT,   /* another format version, or fields that contradict each other under a good checksum */
    KILN__ENTRY_OTHER_KEY /* intact, but of another key */
} kiln__entry_fault;
const char *kiln__entry_fault_text(kiln__entry_fault fault);

/* Checks bytes whole (length, checksum, then format, then that key.digest is the digest of key_text) and points *out
 * into them. `key` may be NULL to take any; an empty key->toolchain takes any toolchain. Never reads outside the bytes;
 * *out is empty unless the entry is good. An entry has exactly one form: any other bytes are refused. */
kiln__entry_fault kiln__entry_decode(kiln__entry *out, const void *bytes, size_t length, const kiln__key *key);

/* Whether an entry is of another version of Kiln, so that no look-up of this one can take it: another format version,
 * or a key text of another version (base/keyline.h). `head` is its first KILN__ENTRY_HEAD bytes, or all of a shorter
 * entry. Checks nothing else. */
bool kiln__entry_is_outdated(const void *head, size_t length);

#endif
