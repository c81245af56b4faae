/* All templates and ops that a service knows: Kiln's and user-defined ones. It only grows, one thread at a time. Its
 * items stay unchanged until fini, so any thread may read it at any time, and keep pointers. */
#ifndef KILN_SPEC_CATALOG_H
#define KILN_SPEC_CATALOG_H

#include "lang/op.h"
#include "spec/template.h"

/* The template of ops that reduce, where a spec names none, and those for long rows, for a few of any length, and for
 * rows beside each other. */
#define KILN__TEMPLATE_ROWS    "rows"
#define KILN__TEMPLATE_COLUMNS "columns"
#define KILN__TEMPLATE_CLUSTER "cluster"
#define KILN__TEMPLATE_SPLIT   "split"

enum { KILN__TEMPLATES_MAX = 256, KILN__OWN_TEMPLATES_MAX = 64, KILN__TEMPLATE_NAME_SIZE = 41 };

/* A template of Kiln, which may not have been read yet. */
typedef struct kiln__own_template {
    char name[KILN__TEMPLATE_NAME_SIZE];
    const char *text, *cpu_text;
} kiln__own_template;

/* Templates have numbers: first Kiln's, in the order of their names, then user-defined ones. A template of Kiln is read
 * when it is first asked for. Any thread may do that at any time. */
typedef struct kiln__catalog {
    kiln__op_table ops;
    kiln__functions functions; /* which definitions of ops may call */
    kiln__own_template own[KILN__OWN_TEMPLATES_MAX];
    uint32_t own_count;
    _Atomic(kiln__template *) templates[KILN__TEMPLATES_MAX]; /* NULL: not read */
    atomic_uint template_count;
    const kiln__template *usual; /* for specs that name none */
    const char *prelude;         /* text of real.h; borrowed, as the next */
    const char *rows;            /* that of rows.h, for ops that reduce */
    const char *scan;            /* that of scan.h, for ops that scan, on a GPU */
} kiln__catalog;

/* Fills it with Kiln's templates and ops. KILN_ESPEC if the library was built without their texts, KILN_ENOMEM. */
kiln_status kiln__catalog_init(kiln__catalog *out, kiln_report *report);
void kiln__catalog_fini(kiln__catalog *catalog);

/* Reads a user's template and adds it; see kiln__template_read. One thread at a time. A known template with equal texts
 * stays as it is, and that is KILN_OK. *out gets the template of that name. Errors: KILN_ESPEC (a declaration or the
 * reference is wrong, the name is taken, there is no room), KILN_ENOMEM. */
kiln_status kiln__catalog_define(kiln__catalog *catalog, const char *text, const char *cpu_text, const char *origin,
                                 const kiln__template **out, kiln_report *report);

/* The name of any template; NULL after the last. */
const char *kiln__catalog_name(const kiln__catalog *catalog, uint32_t i);

/* Template number i, which is there, read. Errors: KILN_ESPEC (its declarations are wrong), KILN_ENOMEM. */
kiln_status kiln__catalog_load(const kiln__catalog *catalog, uint32_t i, const kiln__template **out,
                               kiln_report *report);

/* The template of a name; *out is NULL if there is none. Errors: as for load. */
kiln_status kiln__catalog_find(const kiln__catalog *catalog, kiln__word name, const kiln__template **out,
                               kiln_report *report);

#endif
