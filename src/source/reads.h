/* The reads of a compile: every path that a source asked for, and what was there. A text, a line for each:
 *
 *     + <place> <digest> <path>     a file and the digest of its contents
 *     = <place> <number> <path>     the same file, by device and inode, as file <number> of the list, counted from 1
 *     / <place> - <path>            a directory
 *     - <place> - <path>            nothing
 *
 * `place` names an include directory (source/source.h), `path` is relative to it, as it was asked for. The compiler
 * asks for the first path in any case, and for each later one as long as all reads before it give the same.
 *
 * NVRTC's #pragma once leaves out a file that has been read before, under any name: it knows files by device and inode.
 * Two copies with equal contents are two files to it, and two links to one file are one. So the list and the key tell
 * the files apart in the same way. Pure. */
#ifndef KILN_SOURCE_READS_H
#define KILN_SOURCE_READS_H

#include "base/digest.h"
#include "base/text.h"

/* Absolute directory that all places seem to lie in while a source is compiled: "/kiln/0/math.h". */
#define KILN__READS_ROOT "/kiln"

/* The place of Kiln's standard headers. A worker has them in memory and the key has them all: no list names them. */
#define KILN__READS_STANDARD "std"

enum {
    KILN__PLACE_SIZE = 8,
    KILN__READ_PATH_MAX = 1024,
    KILN__READ_BYTES_MAX = 64 << 20 /* of a file */,
    KILN__READS_FILES_MAX = 999
};

typedef enum kiln__read_kind {
    KILN__READ_FILE = '+',
    KILN__READ_SAME = '=',
    KILN__READ_DIRECTORY = '/',
    KILN__READ_NOTHING = '-'
} kiln__read_kind;

typedef struct kiln__read {
    kiln__read_kind kind;
    char place[KILN__PLACE_SIZE];
    char digest[KILN__DIGEST_HEX]; /* of KILN__READ_FILE, else "-" */
    uint32_t same;                 /* of KILN__READ_SAME: which file of the list, from 1 */
    char path[KILN__READ_PATH_MAX];
} kiln__read;

/* Whether this errno of a failed look-up says that nothing is there. Any other, such as a shortage of descriptors or a
 * lack of rights, leaves that unknown. */
bool kiln__reads_means_nothing(int error);

/* The place of the directory beside a file of a source, which is searched for #include "x.h" in that file. The file is
 * the source's text (0) or one of its parts (1, 2, ...), at most KILN__READS_FILES_MAX. */
void kiln__reads_beside(char out[KILN__PLACE_SIZE], size_t file);

/* Which file a place is beside, and -1 for any other place. */
int kiln__reads_file_of(const char *place);

/* Splits KILN__READS_ROOT "/<place>/<path>" (or "/<place>", an empty path) into place and path. False for any other
 * path, and for one that a line cannot hold: too long, or with a control character in it. Also false for a path that
 * begins with '<': the compiler's names for the files of a source, which are in memory. */
bool kiln__reads_split(const char *asked, char place[KILN__PLACE_SIZE], char path[KILN__READ_PATH_MAX]);

void kiln__reads_add(kiln__text *reads, const kiln__read *read);

/* Reads the line at *at, which ends within `end`, and moves *at behind it. False if it is none. */
bool kiln__reads_next(const char **at, const char *end, kiln__read *out);

/* Whether any bytes are such a list. */
bool kiln__reads_are_sound(const char *reads, size_t length);

/* Appends the lines of files alone: all that was compiled besides the source. */
void kiln__reads_contents(kiln__text *out, const char *reads, size_t length);

typedef struct kiln__read_identity {
    uint64_t device, inode;
    uint32_t number, first; /* among the files of a list, from 1 */
    uint32_t said;          /* the caller's: what a list has for `first`, 0 where that is the file itself */
} kiln__read_identity;

/* Fills `number` with 1, 2, ... and `first` with the number of the first file of the same identity, its own where
 * there is none before. */
void kiln__reads_find_same(kiln__read_identity *files, size_t count);

#endif
