/* Wisdom: the results of tuning, for specs that leave their geometry open. Records come from the user's own cache
 * directory and from the shared one. Knows no devices and no compilers. Any thread. */
#ifndef KILN_WISDOM_WISDOM_H
#define KILN_WISDOM_WISDOM_H

#include "spec/catalog.h"
#include "store/store.h"
#include "wisdom/match.h"

typedef struct kiln__wisdom kiln__wisdom;

/* Where machines that share a server keep their records together. */
#define KILN__WISDOM_REMOTE "kiln1:wisdom"

enum { KILN__WISDOM_WAIT_MS = 10000 };

/* Reads nothing yet. `own` and `shared` are directory stores or NULL; all arguments are borrowed until close.
 * `wait_ms`: the longest wait for another process that writes. NULL: out of memory. */
kiln__wisdom *kiln__wisdom_open(kiln__store *own, kiln__store *shared, uint32_t wait_ms, const kiln__log *log,
                                kiln__store_counters *counters);
void kiln__wisdom_close(kiln__wisdom *wisdom); /* NULL is allowed */

/* A number that stays the same as long as the known records do: equal queries get equal choices meanwhile. The first
 * call reads the files. Later calls check at most once a second, by times and sizes, whether a file has changed, and
 * read them again then. Between two checks a call costs a look at the clock. */
uint64_t kiln__wisdom_generation(kiln__wisdom *wisdom);

/* The same number where no check is due. Else false: the other functions would read files now. */
bool kiln__wisdom_peek(const kiln__wisdom *wisdom, uint64_t *generation);

/* The geometry for a query, from the nearest record that fits; out->found is false where there is none or where the
 * spec leaves nothing open. Remembers its answers: the same query again opens no file and compares no records.
 * KILN_ENOMEM: the choice is not known, and the defaults must not take its place. */
kiln_status kiln__wisdom_match(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                               kiln_report *report);

/* The same choice, and every record of the spec's template, from the nearest on, with the reasons. Errors: those of
 * kiln__wisdom_choose. */
kiln_status kiln__wisdom_explain(kiln__wisdom *wisdom, const kiln__wisdom_query *query, kiln__wisdom_choice *out,
                                 kiln_wisdom_candidate_fn fn, void *data, kiln_report *report);

/* Calls fn with every known record, by source and then in the order of kiln__wisdom_record_compare; non-zero stops.
 * KILN_ENOMEM: the records could not be read. */
kiln_status kiln__wisdom_visit(kiln__wisdom *wisdom, int (*fn)(void *data, const kiln__wisdom_item *item), void *data);

/* The outcome of adding records. */
typedef struct kiln__wisdom_outcome {
    kiln__wisdom_counts tally;
    bool stored;                       /* in the user's cache directory; else this process alone knows them */
    char problem[KILN__WISDOM_REASON]; /* why they are not stored, "" if they are */
} kiln__wisdom_outcome;

/* Adds records, which are copied; later matches know them. Records that cannot be stored are no failure. Waits while
 * other processes add theirs. Errors: KILN_EINVAL naming the fault of a record (nothing is added then), KILN_ENOMEM. */
kiln_status kiln__wisdom_add(kiln__wisdom *wisdom, const kiln__wisdom_entry *records, size_t count,
                             kiln__wisdom_outcome *out, kiln_report *report);

/* The same for a set of checked records, such as kiln__wisdom_read gives. */
kiln_status kiln__wisdom_add_set(kiln__wisdom *wisdom, const kiln__wisdom_set *set, kiln__wisdom_outcome *out,
                                 kiln_report *report);

/* The measurement of the best geometry. */
typedef struct kiln__wisdom_measure {
    double ms, gbps, ratio;
    uint64_t samples, variants;
} kiln__wisdom_measure;

/* Adds the result of a tuning: `spec` is resolved, with its n set, and its geometry was the best. */
kiln_status kiln__wisdom_learn(kiln__wisdom *wisdom, const kiln__fields *spec, const kiln__wisdom_device *device,
                               const char *toolchain, const kiln__wisdom_measure *measure, kiln__wisdom_outcome *out,
                               kiln_report *report);

/* Appends the path of the file into which a model's records go; nothing where there is no cache directory. */
void kiln__wisdom_path(const kiln__wisdom *wisdom, const char *model, kiln__text *out);

/* Makes the next call check whether files have changed, however recent the last check was. */
void kiln__wisdom_refresh(kiln__wisdom *wisdom);

#endif
