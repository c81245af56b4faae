/* Which record says most about a spec whose geometry is open. Pure; any thread. docs/tuning.md describes the order. */
#ifndef KILN_WISDOM_MATCH_H
#define KILN_WISDOM_MATCH_H

#include "spec/fields.h"
#include "wisdom/record.h"

/* The source of a record. Of two that are equally near, the first source wins. */
typedef enum kiln__wisdom_source { KILN__WISDOM_OWN, KILN__WISDOM_SHARED } kiln__wisdom_source;

typedef struct kiln__wisdom_item {
    const kiln__wisdom_entry *record;
    kiln__wisdom_source source;
} kiln__wisdom_item;

/* The record as the host sees it. Its texts are borrowed. */
kiln_wisdom_record kiln__wisdom_public_record(const kiln__wisdom_item *item);

typedef struct kiln__wisdom_query {
    const kiln__fields *spec;          /* op set; its n is the size, if set; parameters that are set stay as they are */
    const kiln__wisdom_device *device; /* its target is the one to compile for where the spec leaves that open */
    const char *toolchain;             /* that would compile; "" if unknown */
} kiln__wisdom_query;

/* The answer to a query: parameters to fill in. Plain data. */
typedef struct kiln__wisdom_choice {
    bool found;
    uint32_t set; /* bit i: parameter i of the spec's template is chosen */
    int64_t params[KILN__PARAMS_MAX];
    /* Its decimal digits are, from the front: 1 other toolchain, 2 other text of the template; 1 other model, 2 other
     * chip of the family, 3 other family; source; 1 other dtype; 1 other op; and two of the difference of sizes. */
    uint32_t distance;
} kiln__wisdom_choice;

/* Chooses among the items. `digest` is kiln__wisdom_digest of the text that would be compiled. The nearest record wins
 * whose geometry has the parameters that the spec sets and satisfies the template's constraints. Equal inputs give
 * equal choices, in whatever order the items stand. `explain` (may be NULL; non-zero stops) gets each record of the
 * spec's template, from the nearest to those that are never used. Errors: KILN_EINVAL (no op; neither spec nor device
 * has a target), KILN_ENOMEM; *out then has nothing found. */
kiln_status kiln__wisdom_choose(kiln__wisdom_choice *out, const kiln__wisdom_item *items, size_t count,
                                const kiln__wisdom_query *query, const char *digest, kiln_wisdom_candidate_fn explain,
                                void *data, kiln_report *report);

/* Sets the chosen parameters. */
void kiln__wisdom_apply(const kiln__wisdom_choice *choice, kiln__fields *spec);

/* The target of a query: the spec's, else the device's. False if there is none. */
bool kiln__wisdom_target(const kiln__wisdom_query *query, kiln__target *out);

#endif
