/* Units: the complete source text of a resolved spec, and the rule by which it is launched. Pure. */
#ifndef KILN_SPEC_UNIT_H
#define KILN_SPEC_UNIT_H

#include "base/digest.h"
#include "base/list.h"
#include "spec/fields.h"

enum {
    KILN__NAME_SIZE = 64,
    /* Operations of a thread that are compiled in the host's process: the longest definition with the default
     * geometry. It takes about a second and 25 MB more than a small one; 64 elements for each thread take up to 10 s
     * and 220 MB. */
    KILN__UNIT_LIGHT_MAX = 4096
};

/* The rule of a launch, besides the plan: it takes the first entry whose alignment all pointers have. */
typedef struct kiln__rule {
    uint32_t block[3]; /* threads in each direction */
    uint32_t shared;   /* bytes of dynamic shared memory */
    bool scratch;      /* its launches need memory of their own */
    uint64_t tile;     /* elements per block; 0: the template declares none */
    uint32_t arg_count;
    uint32_t entry_count;
    struct {
        char name[KILN__NAME_SIZE];
        uint32_t align;
    } entries[KILN__ENTRIES_MAX];
} kiln__rule;

typedef struct kiln__unit {
    char *spec;   /* canonical text, complete */
    char *source; /* complete source text */
    size_t source_length;
    kiln__target target;
    kiln__rule rule;
    kiln__plan *plan;    /* of a template; NULL for a user-defined source */
    char *arguments;     /* of a template: the bytes of each parameter, a blank between; NULL: they are not compared */
    bool contracts;      /* compiled with --fmad=true, so that CUDA's own functions are those of PyTorch */
    bool foreign;        /* the source is not Kiln's own, and may attack the compiler's process */
    uint32_t operations; /* of its op, for one element */
    /* Options that kiln warm needs besides the spec, to know user-defined ops and templates: words of a shell, with a
     * blank in front; NULL: none. */
    char *warm_options;
    bool homeless; /* the template is in no file, so no other program can know it */
    char *name;    /* of the user's text in the compiler's messages, without a '/'; NULL: a template of Kiln */
    char *shown;   /* its file in messages for the user; NULL: the text is in no file, and has the name above */
    char *folder;  /* of a user's template in a file: absolute, for the headers beside it; NULL for others */
    bool includes; /* a template whose text includes headers */
    /* Compiled as a user's source (source/source.h) with what follows. Else these are empty. */
    bool as_source;
    kiln__list functions; /* name expressions; "&x" for a variable */
    kiln__list headers;   /* name, text, name, text, ... */
    kiln__list parts;     /* of further files: name for messages, text, ... */
    kiln__list options;   /* the user's, as the compiler takes them, "-DNAME=VALUE" included */
    kiln__text notes;     /* on options that the user should know of, a line each */
    /* Place, absolute path, place, ...: the user's include directories "0", "1", ..., the directories beside the
     * files that look there (source/reads.h), then CUDA's, whether or not they are there. */
    kiln__list places;
    size_t directories;        /* how many of these are the user's */
    bool cuda_headers;         /* CUDA's are wanted, whether or not they were found */
    char id[KILN__DIGEST_HEX]; /* unique in this process; "" until kiln__source_identify */
} kiln__unit;

/* It is compiled as a user's source, so that its entry may depend on headers, options and names. Besides users' sources
 * that holds for users' templates that include headers or name options. */
static inline bool kiln__unit_is_source(const kiln__unit *unit)
{
    return unit->as_source;
}

/* It is of a template, which names its entry points. */
static inline bool kiln__unit_is_template(const kiln__unit *unit)
{
    return !unit->as_source || unit->rule.entry_count > 0;
}

/* Elements that one thread computes, and so how often a compiler sees the op. */
static inline uint64_t kiln__unit_elements(const kiln__unit *unit)
{
    const uint32_t *block = unit->rule.block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return threads > 0 && unit->rule.tile > threads ? unit->rule.tile / threads : 1;
}

/* Whether the op takes a compiler too much time and memory for the host's process. */
static inline bool kiln__unit_is_heavy(const kiln__unit *unit)
{
    return unit->operations * kiln__unit_elements(unit) > KILN__UNIT_LIGHT_MAX;
}

/* Whether the text of the unit of a resolved spec includes headers, so that its kernel depends on files. */
bool kiln__unit_will_include(const kiln__fields *spec);

/* `spec` is resolved. Deterministic. Without headers and places, which a caller adds where unit->includes. Errors:
 * KILN_ESPEC (the template cannot do it: no cpu twin), KILN_ENOMEM. */
kiln_status kiln__unit_make(kiln__unit **out, const kiln__fields *spec, kiln_report *report);

/* Takes the options of a template for a unit (kiln__option_take). */
kiln_status kiln__unit_take_options(kiln__unit *unit, const kiln__template *template, kiln_report *report);

/* Frees the parts of a unit that a source adds. */
void kiln__unit_fini_source(kiln__unit *unit);

/* NULL is allowed. */
void kiln__unit_free(kiln__unit *unit);

#endif
