/* Checks on a cubin and on PTX before the driver sees it: the driver's load call takes no length, so an image that
 * ends early would be read beyond its end. */
#ifndef KILN_GPU_CUBIN_H
#define KILN_GPU_CUBIN_H

#include "base/elf.h"

enum { KILN__CUBIN_REASON_SIZE = KILN__ELF_REASON_SIZE };

/* kiln__elf_check for a CUDA ELF, whose sections must have names too. Says nothing of what the sections hold. */
bool kiln__cubin_check(const void *bytes, size_t length, char reason[KILN__CUBIN_REASON_SIZE]);

/* Whether a checked cubin has code for the entry point `name`. */
bool kiln__cubin_has_entry(const void *bytes, const char *name);

/* Whether bytes are PTX: no NUL but one at their end, comments and blanks, ".version", ".target" with a GPU that is
 * not above sm_<most> (0: whichever it is). Says nothing of what follows; `reason` is written otherwise. The driver
 * reads PTX up to a NUL and takes a cubin or an archive in its place. */
bool kiln__ptx_check(const char *bytes, size_t length, int most, char reason[KILN__CUBIN_REASON_SIZE]);

/* Whether checked PTX has the entry point `name`. */
bool kiln__ptx_has_entry(const char *bytes, size_t length, const char *name);

/* Calls fn with the name of each kernel in a checked cubin that a host can launch, in the order of its symbols. Those
 * that only their file knows are left out: the device runtime has some. The name is borrowed for the call. */
void kiln__cubin_kernels(const void *bytes, void (*fn)(void *data, const char *name), void *data);

/* Calls fn with the name of each symbol that a checked cubin defines for others, and that no other may define. */
void kiln__cubin_definitions(const void *bytes, void (*fn)(void *data, const char *name), void *data);

/* How many functions and variables of a checked cubin have a name. Several may have one that only their files know.
 * Link-time optimization tells these apart by a '$' and a number behind the name, and they count too. */
unsigned kiln__cubin_count(const void *bytes, const char *name);

/* The bytes of each parameter of a kernel, as a checked cubin tells them, fewer than `most`. Returns how many there
 * are; -1: it cannot tell. */
int kiln__cubin_parameters(const void *bytes, const char *name, size_t *sizes, int most);

/* The resources of a kernel, as a checked cubin tells them: -1 where it does not. */
typedef struct kiln__cubin_usage {
    int registers;     /* per thread */
    int stack_bytes;   /* per thread: its arrays and spilled registers */
    int shared_bytes;  /* static, per block */
    int max_threads;   /* of a block */
    int block_threads; /* that each block must have; 0: any number up to max_threads */
} kiln__cubin_usage;
void kiln__cubin_usage_of(const void *bytes, const char *name, kiln__cubin_usage *out);

#endif
