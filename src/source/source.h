/* Sources of users' own: checked, copied, and what of them decides the compiled bytes. Pure: no file is looked at. */
#ifndef KILN_SOURCE_SOURCE_H
#define KILN_SOURCE_SOURCE_H

#include "base/digest.h"
#include "base/list.h"
#include "template/unit.h"
#include <kiln/source.h>

/* What such a unit has besides the text (unit->own). */
typedef struct kiln__source_parts {
    char *name;           /* what __FILE__ is: no '/' in it */
    char *shown;          /* how messages call the file */
    kiln__list functions; /* name expressions; "&x" for a variable */
    kiln__list headers;   /* name, text, name, text, ... */
    kiln__list options;   /* the user's own, as the compiler takes them, "-DNAME=VALUE" included */
    /* Place, absolute path, place, ...: the user's include directories "0", "1", ..., then CUDA's, whether or not they are there. */
    kiln__list places;
    size_t directories;        /* how many of these are the user's */
    bool cuda_headers;         /* CUDA's are wanted, whether or not they were found */
    char id[KILN__DIGEST_HEX]; /* tells it from any other in this process; "" until kiln__source_identify */
} kiln__source_parts;

/* A unit and what it has besides. */
typedef struct kiln__source_unit {
    kiln__unit unit;
    kiln__source_parts source;
} kiln__source_unit;

/* Checks what the caller gave and copies it; places stay empty. KILN_EINVAL, KILN_ETARGET ("cpu"), KILN_ENOMEM. Any other
 * target is the caller's to set where source->target is NULL. */
kiln_status kiln__source_make(kiln__source_unit **out, const kiln_source *given, kiln_report *report);
void kiln__source_free(kiln__source_unit *unit);
void kiln__source_fini(kiln__source_parts *source);

/* Sets the target, and the text by which the unit is known to people. KILN_ENOMEM. */
kiln_status kiln__source_set_target(kiln__source_unit *unit, const kiln__target *target);

/* Appends the text of everything that decides the compiled bytes but the contents of files: `options` are those that every such
 * source is compiled with. Paths of directories are not in it. */
void kiln__source_key_text(kiln__text *out, const kiln__unit *unit, const char *options);

/* Fills source.id from all that it has, places included. KILN_ENOMEM. */
kiln_status kiln__source_identify(kiln__source_unit *unit);

/* A compiler's log as the user is to see it: paths of places are those of the directories, and the file is called as the user
 * calls it. NULL: out of memory. */
char *kiln__source_show_log(const kiln__source_parts *source, const char *log);

#endif
