/* Targets: "sm_90", "sm_90a", "sm_100f" or "cpu", each a backend and an architecture. The meaning of a name is
 * here, and the compiler that builds for it elsewhere. Pure. */
#ifndef KILN_SPEC_TARGET_H
#define KILN_SPEC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The backends, in the order in which a default device is looked for. A backend is a folder of src/ (gpu, cpu) and a
 * row here: X(ID, name, the beginning of its targets, whether a number follows, the section of an entry that has its
 * code, whether it compiles templates' C twins in place of their CUDA text, the words for it about a record of
 * wisdom) */
#define KILN__BACKENDS(X)                                   \
    X(CUDA, cuda, "sm_", true, "cubin", false, "for a GPU") \
    X(CPU, cpu, "cpu", false, "object", true, "for the cpu")

typedef enum kiln__backend_id {
#define KILN__BACKEND_ID(id, name, prefix, numbered, section, twin, words) KILN__BACKEND_##id,
    KILN__BACKENDS(KILN__BACKEND_ID)
#undef KILN__BACKEND_ID
        KILN__BACKEND_END
} kiln__backend_id;

/* The facts of a backend that specs, units and entries need. */
typedef struct kiln__backend_facts {
    const char *name, *prefix;
    bool numbered;
    const char *section;
    bool twin;
    const char *words;
} kiln__backend_facts;

enum { KILN__TARGET_SIZE = 16, KILN__CLUSTER_SM = 90 /* the first with clusters of blocks */ };

typedef struct kiln__target {
    int sm;      /* 90 for sm_90; 0 where the backend has no numbers */
    char suffix; /* 'a', 'f' or '\0' */
    char name[KILN__TARGET_SIZE];
    kiln__backend_id backend;
} kiln__target;

/* The target whose results are the reference for all others: "cpu". */
extern const kiln__target kiln__reference_target;

/* False if the text is not a target's name (sm_ with two or three digits and an optional a or f, or cpu). */
bool kiln__target_parse(const char *text, size_t length, kiln__target *out);

const kiln__backend_facts *kiln__backend_facts_of(kiln__backend_id backend);

static inline const kiln__backend_facts *kiln__target_facts(const kiln__target *target)
{
    return kiln__backend_facts_of(target->backend);
}

static inline bool kiln__target_same_backend(const kiln__target *a, const kiln__target *b)
{
    return a->backend == b->backend;
}

/* The name of the device that kernels for a target run on, "cpu"; NULL: the default device, as far as it is of that
 * backend. */
const char *kiln__target_device(const kiln__target *target);

/* The bytes of shared memory that a block of threads can have on a target, static and dynamic together: a kernel has
 * to ask for more than 48 KiB, and Kiln does so. Of a GPU that is not known it is the most that any has. On the cpu,
 * where a twin allocates what it needs, it is INT32_MAX. */
int32_t kiln__target_shared_limit(const kiln__target *target);

/* The multiprocessors of the largest usual GPU of a target, 1 on the cpu. A device may have fewer or more: it is a hint
 * for how much runs at once. */
int32_t kiln__target_cores(const kiln__target *target);

#endif
