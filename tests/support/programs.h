/* The CUDA programs of tests/programs/: what each is compiled with. */
#ifndef KILN_TESTS_SUPPORT_PROGRAMS_H
#define KILN_TESTS_SUPPORT_PROGRAMS_H

#include <kiln/kiln.h>

enum { PROGRAM_FUNCTIONS_MAX = 3 };

typedef struct program_source {
    const char *name; /* of the file, without ".cu" */
    const char *functions[PROGRAM_FUNCTIONS_MAX];
    const char *option;
    const kiln_header *header;
    int least;    /* it is for sm_<least> and newer; 0: any */
    int own_tree; /* it includes files of tests/programs/include */
    int files;    /* it is linked: of one file, or of two with the other in tests/programs/parts; 0: it is not */
    int cccl;     /* it needs CCCL: CUB or cooperative groups */
} program_source;

extern const program_source program_sources[];
extern const size_t program_source_count;

/* Where the files are: KILN_PROGRAMS, else where they were when the tests were built. */
const char *program_directory(void);

/* Reads the file of a program, with a NUL behind it, and then the other one if it has two, likewise; the caller's
 * (free). NULL if they cannot be read. */
char *program_text(const program_source *program);

/* Fills everything but the target, of one program at a time in a thread. Borrows `text`, `include_dirs` (as many as are
 * not NULL, and room for one more). */
void program_fill(kiln_source *out, const program_source *program, const char *text, const char **include_dirs);

#endif
