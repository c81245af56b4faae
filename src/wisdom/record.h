/* Records of wisdom: the geometry that was measured to be the best for one kind of work on one kind of device, sets of
 * records, and their text in files. Knows no templates. docs/tuning.md describes every field and the format. Pure. */
#ifndef KILN_WISDOM_RECORD_H
#define KILN_WISDOM_RECORD_H

#include "base/text.h"

enum {
    KILN__WISDOM_NAME_MAX = 255,      /* bytes of each other text */
    KILN__WISDOM_OP_MAX = 8192,       /* of the op, and of all fields that are unknown */
    KILN__WISDOM_RECORDS_MAX = 16384, /* in one file */
    KILN__WISDOM_FILE_MAX = 32 << 20, /* bytes */
    KILN__WISDOM_REASON = 256         /* bytes for a reason in words */
};

/* The facts of a device. */
typedef struct kiln__wisdom_device {
    const char *model;  /* the maker's name, "NVIDIA H200"; "" where only a target is known */
    const char *target; /* "sm_90", "cpu" */
    uint64_t multiprocessors, l2_bytes, memory_bytes; /* 0 if unknown */
} kiln__wisdom_device;

/* All text is printable ASCII and never NULL. */
typedef struct kiln__wisdom_entry {
    kiln__wisdom_device device;
    const char *template_name, *op_class, *op, *dtype; /* "elementwise", "1 in, 1 out, light", "relu6", "f32" */
    uint64_t log2_n;                                   /* the power of two nearest to the number of elements */
    uint64_t cols;                                     /* of an op that reduces, the length of rows; 0: none */
    const char *geometry;                              /* "block=128 elems=4 vector=4 cache=stream" */
    double ms, gbps, ratio;                            /* median; memory traffic; time / time of the default geometry */
    uint64_t samples, variants;                        /* of this geometry; geometries that were compared */
    const char *digest, *toolchain, *maker; /* of the template's text; compiler; "kiln 0.2.0"; "" if unknown */
    const char *extra; /* fields that this version does not know, as JSON: `, "name": value`; "" if there are none */
} kiln__wisdom_entry;

/* A record whose texts are "" and whose numbers are 0. */
extern const kiln__wisdom_entry kiln__wisdom_record_empty;

/* True if a record may be kept; else the problem gets the reason, one line. */
bool kiln__wisdom_record_check(const kiln__wisdom_entry *record, char problem[KILN__WISDOM_REASON]);

/* Orders records by model, target, template, op, dtype, size and length of rows. Of two that are equal in all of them
 * (0), a set keeps one. */
int kiln__wisdom_record_compare(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b);

/* Whether all fields are equal, the unknown ones too. */
bool kiln__wisdom_record_equal(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b);

/* ---- Sets */

/* Sorted records, no two about the same. Owns copies. Zero-initialised is empty. One thread at a time. */
typedef struct kiln__wisdom_set {
    kiln__wisdom_entry **records;
    size_t count, room;
} kiln__wisdom_set;

void kiln__wisdom_set_fini(kiln__wisdom_set *set);

/* The outcome of adding a record. */
typedef enum kiln__wisdom_fate {
    KILN__WISDOM_ADDED,
    KILN__WISDOM_REPLACED, /* an older one about the same */
    KILN__WISDOM_EQUAL,    /* it was there already, to the last field */
    KILN__WISDOM_OLDER_KEPT,
    KILN__WISDOM_FULL,
    KILN__WISDOM_NO_MEMORY
} kiln__wisdom_fate;

/* Copies a checked record into the set. It takes the place of one that is about the same, unless that one came from a
 * wider search (more variants) of the same template text with the same toolchain. */
kiln__wisdom_fate kiln__wisdom_set_add(kiln__wisdom_set *set, const kiln__wisdom_entry *record);

/* The same for results of several machines, in whatever order they come: of two about the same the one of the newer
 * toolchain stays, then that of the wider search, then that of more samples. */
kiln__wisdom_fate kiln__wisdom_set_add_best(kiln__wisdom_set *set, const kiln__wisdom_entry *record);

/* Whether the set has one about the same. */
bool kiln__wisdom_set_has(const kiln__wisdom_set *set, const kiln__wisdom_entry *record);

typedef struct kiln__wisdom_counts {
    size_t added, replaced, equal, older_kept;
} kiln__wisdom_counts;

/* Adds several records and counts their outcomes. Ends at the first that finds no room or no memory and returns its
 * fate, else KILN__WISDOM_ADDED. */
kiln__wisdom_fate kiln__wisdom_set_add_all(kiln__wisdom_set *set, kiln__wisdom_entry *const *records, size_t count,
                                           kiln__wisdom_counts *tally);

/* Adds all records of another set, without a bound on their number: a bound would leave out some that may be the
 * nearest. False: out of memory. */
bool kiln__wisdom_set_join(kiln__wisdom_set *set, const kiln__wisdom_set *more);

/* ---- Files: JSON, one record on each line */

typedef enum kiln__wisdom_fault {
    KILN__WISDOM_GOOD,
    KILN__WISDOM_DAMAGED, /* it is not in the format, or a record in it is wrong */
    KILN__WISDOM_NEWER,   /* a later version of Kiln made it */
    KILN__WISDOM_OUT_OF_MEMORY
} kiln__wisdom_fault;

/* Reads the records of a file. Any fault refuses the whole file: the set is then empty, and the problem says the fault
 * and its place in one line ("" without a fault). Unknown fields of the file are ignored, those of a record kept with
 * it. */
kiln__wisdom_fault kiln__wisdom_read(kiln__wisdom_set *out, const char *bytes, size_t length,
                                     char problem[KILN__WISDOM_REASON]);

/* Appends the text of a file with the records of the set. Reading it back gives equal records, but for measurements,
 * which have 6 digits. */
void kiln__wisdom_write(const kiln__wisdom_set *set, kiln__text *out);

#endif
