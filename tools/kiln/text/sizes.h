/* Lists of sizes: "2^20", "1M,4096x1024", "2^10..2^28", "2^10..2^30*4". */
#ifndef KILN_TOOLS_SIZES_H
#define KILN_TOOLS_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIZES_MAX = 64 };

typedef struct size_list {
    uint64_t items[SIZES_MAX]; /* from the least on, each once */
    size_t count;
} size_list;

/* Reads sizes as parse_size has them and ranges of them, which double or are multiplied by the factor after '*',
 * with commas between. Returns false for anything else and for more than SIZES_MAX. */
bool sizes_parse(size_list *out, const char *text);

#endif
