/* Wisdom: what tuning found, and which of it a spec that leaves its geometry open takes. docs/tuning.md describes records,
 * their files and the order in which they are taken.
 *
 *     kiln_wisdom_explain(&text, service, spec, NULL, on_candidate, NULL, NULL);    text is what kiln_get would take
 *     kiln_wisdom_import(service, paths, 1, NULL, NULL);                            and what it takes from now on
 *
 * kiln_options.wisdom switches it off; what is off may still be looked at, learnt and moved. The rules of <kiln/kiln.h>
 * hold here too; all functions may be called on any thread. */
#ifndef KILN_WISDOM_H
#define KILN_WISDOM_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One result of tuning. Strings are borrowed for the callback. */
typedef struct kiln_wisdom_record {
    size_t size;
    const char *source;        /* "own", "shared" (the shared directory) or "shipped" (with Kiln) */
    const char *model;         /* of the device, as its maker names it */
    const char *target;        /* what was compiled for: "sm_90", "cpu" */
    uint64_t multiprocessors;  /* or cores; 0 if unknown, as what follows */
    uint64_t l2_bytes;         /* of the last-level cache */
    uint64_t memory_bytes;     /* of the device */
    const char *template_name; /* "elementwise" */
    const char *op_class;      /* "1 in, 1 out, light": ops of one class like the same geometry */
    const char *op, *dtype;
    uint32_t log2_n;       /* the number of elements, as the nearest power of two */
    const char *geometry;  /* "block=128 elems=4 vector=4 cache=plain" */
    double ms, gbps;       /* of a launch, the median; memory traffic */
    double ratio;          /* its time over that of the template's defaults */
    uint64_t samples;      /* of this geometry */
    uint64_t variants;     /* that were compared */
    const char *toolchain; /* the compiler, "" if unknown */
    const char *by;        /* who made the record: "kiln 0.1.0" */
} kiln_wisdom_record;

/* What it returns is said where it is used. */
typedef int (*kiln_wisdom_fn)(void *data, const kiln_wisdom_record *record);

/* Visits every record that the service knows: the user's own, those of the shared directory, those shipped. Non-zero stops.
 * A file that is damaged or not trusted is left out, which kiln_stats counts and the log says. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data);

/* A record as one spec sees it. */
typedef struct kiln_wisdom_candidate {
    size_t size;
    const kiln_wisdom_record *record;
    uint32_t distance;   /* 0: exact; the nearest that fits is taken; UINT32_MAX: never used for this spec */
    const char *reason;  /* what differs, in words: "exact", "2^20 elements instead of 2^26" */
    const char *refusal; /* why its geometry cannot be taken, "" if it can */
    int chosen;          /* 1: this is the one */
} kiln_wisdom_candidate;

typedef int (*kiln_wisdom_candidate_fn)(void *data, const kiln_wisdom_candidate *candidate);

/* Says what kiln_get takes for a spec now, and kiln_build: *out is its canonical text with every field set, freed with
 * kiln_text_free. fn (may be NULL) is called with each record of the spec's template, from the nearest on; non-zero stops.
 * Where none is chosen the template's defaults are taken. `model` is the device that is meant, "NVIDIA H200", also one that
 * is not here; with NULL it is the default device where the spec names no target, else the open one if it is of the
 * spec's target (kiln_get opens it, kiln_build does not), else any device of the target. Compiles nothing.
 * Errors: those of kiln_spec_parse, KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_explain(char **out, kiln_service *service, const kiln_spec *spec,
                                                       const char *model, kiln_wisdom_candidate_fn fn, void *data,
                                                       kiln_report *report);

/* What came of an import. */
typedef struct kiln_wisdom_tally {
    size_t size;       /* sizeof(kiln_wisdom_tally): set by the caller */
    uint64_t added;    /* records about what nothing was known of */
    uint64_t replaced; /* took the place of an earlier one about the same */
    uint64_t present;  /* were there already */
    uint64_t kept;     /* the earlier one, of a wider search, stayed */
} kiln_wisdom_tally;

/* Adds the records of files to the user's own, as tuning does; every service of the user's knows them within a second. All
 * files are read and checked before anything is added. They must be the user's own or root's and writable by nobody else.
 * *out may be NULL. Errors: KILN_EINVAL (a file cannot be read, is not trusted or not a file of wisdom: nothing was
 * changed), KILN_ENOENT (no cache directory), KILN_EIO (they cannot be stored: this service alone knows them),
 * KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_import(kiln_service *service, const char *const *paths, size_t count,
                                        kiln_wisdom_tally *out, kiln_report *report);

/* Makes the text of a file from the records for which `keep` returns non-zero (NULL: the user's own). Of records about the
 * same the one that the service would take is kept. *out is freed with kiln_text_free. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_export(char **out, kiln_service *service, kiln_wisdom_fn keep,
                                                      void *data, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
