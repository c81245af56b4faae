/* All templates and ops that a service knows: Kiln's own and those that users define. It only grows, one thread at a time;
 * what is in it stays as it is until fini, so any thread may read it at any time, and keep pointers. */
#ifndef KILN_TEMPLATE_CATALOG_H
#define KILN_TEMPLATE_CATALOG_H

#include "template/function.h"
#include "template/manifest.h"
#include "template/op.h"

enum { KILN__TEMPLATES_MAX = 256 };

typedef struct kiln__catalog {
    kiln__op_table ops;
    kiln__functions functions; /* which definitions of ops may call */
    kiln__template *templates[KILN__TEMPLATES_MAX];
    atomic_uint template_count;
    const char *prelude; /* text of real.h; borrowed */
} kiln__catalog;

/* Begins with Kiln's own. KILN_ESPEC if the library was built without their texts, KILN_ENOMEM. */
kiln_status kiln__catalog_init(kiln__catalog *out, kiln_report *report);
void kiln__catalog_fini(kiln__catalog *catalog);

/* Reads a user's template and adds it; see kiln__template_read. One thread at a time. One that is there with equal texts stays
 * as it is, and that is KILN_OK. *out gets the one of that name. Errors: KILN_ESPEC (a declaration or the reference is wrong,
 * the name is taken, there is no room), KILN_ENOMEM. */
kiln_status kiln__catalog_define(kiln__catalog *catalog, const char *text, const char *cpu_text, const char *origin,
                                 const kiln__template **out, kiln_report *report);

/* NULL if unknown. */
const kiln__template *kiln__catalog_template(const kiln__catalog *catalog, const char *name, size_t length);

#endif
