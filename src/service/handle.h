/* Programs as callers hold them: what a request gave, whatever it asked for. */
#ifndef KILN_SERVICE_HANDLE_H
#define KILN_SERVICE_HANDLE_H

#include "service/flight.h"

typedef struct kiln__function_list kiln__function_list;

struct kiln_program {
    kiln_kernel *kernel;                      /* of a spec, loaded; else NULL, as the next two */
    kiln__loaded *loaded;                     /* of a source, loaded */
    kiln__artifact *artifact;                 /* built only */
    _Atomic(kiln__function_list *) functions; /* what they are, once a caller asked */
    unsigned generation;                      /* os/fork.h */
};

/* NULL: out of memory. */
kiln_program *kiln__handle_new(void);
void kiln__handle_free(kiln_program *program);

/* Takes what an outcome holds. */
void kiln__handle_take(kiln_program *program, kiln__outcome *outcome);

/* The contracts of these are those of the public functions; kiln__handle_info fills all but the size. */
kiln_status kiln__handle_info(const kiln_program *program, kiln_program_info *out);
kiln_status kiln__handle_kernel(kiln_kernel **out, const kiln_program *program, const char *name, kiln_report *report);
kiln_status kiln__handle_global(void **out, size_t *bytes, const kiln_program *program, const char *name,
                                kiln_report *report);

#endif
