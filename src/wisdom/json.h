/* Records as a file's text: JSON, one record on each line. docs/tuning.md describes the format. Pure. */
#ifndef KILN_WISDOM_JSON_H
#define KILN_WISDOM_JSON_H

#include "base/text.h"
#include "wisdom/record.h"

enum { KILN__WISDOM_FORMAT = 1, KILN__WISDOM_DEPTH_MAX = 16, KILN__WISDOM_FILE_MAX = 32 << 20 };

typedef enum kiln__wisdom_fault {
    KILN__WISDOM_GOOD,
    KILN__WISDOM_DAMAGED, /* it is not in the format, or a record in it is not right */
    KILN__WISDOM_NEWER,   /* a later version of Kiln made it */
    KILN__WISDOM_OUT_OF_MEMORY
} kiln__wisdom_fault;

/* Reads the records of a file. Any fault refuses the whole file: the set is then empty, and problem says in one line
 * what is wrong and where ("" if nothing is). Unknown fields of the file are ignored, those of a record kept with
 * it. */
kiln__wisdom_fault kiln__wisdom_read(kiln__wisdom_set *out, const char *bytes, size_t length,
                                     char problem[KILN__WISDOM_REASON]);

/* Appends the text of a file with those records of the set that `wanted` (NULL: all) is true for. Reading it back gives
 * equal records, but for measurements, which have 6 digits. */
void kiln__wisdom_write(const kiln__wisdom_set *set, bool (*wanted)(void *data, const kiln__wisdom_entry *record),
                        void *data, kiln__text *out);

/* Appends the JSON object of one record, without a line end. */
void kiln__wisdom_write_record(const kiln__wisdom_entry *record, kiln__text *out);

#endif
