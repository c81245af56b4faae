/* Templates: the declarations in their header comment, see docs/templates.md. */
#ifndef KILN_SPEC_TEMPLATE_H
#define KILN_SPEC_TEMPLATE_H

#include "lang/dtype.h"
#include "lang/real.h"
#include "spec/arguments.h"
#include "spec/param.h"
#include "spec/tolerance.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    KILN__LETS_MAX = 16,
    KILN__PARAMS_MAX = 16,
    KILN__REQUIRES_MAX = 16,
    KILN__TUNES_MAX = 32,
    KILN__TUNE_VALUES_MAX = 64,
    KILN__TEMPLATE_OPTIONS_MAX = 32 /* words */
};

/* A name that stands for a formula in the declarations below it. Texts as declared have such names, formulas none. */
typedef struct kiln__let {
    char *name;
    char *text; /* as declared */
    char *formula;
    char *doc;
} kiln__let;

typedef struct kiln__require {
    char *text; /* as declared */
    char *formula;
    char *doc; /* the message when it does not hold */
} kiln__require;

/* Values of a parameter that are worth trying when a variant is sought. */
typedef struct kiln__tune {
    uint32_t param;
    char *text;      /* the values as they are written */
    char *condition; /* formula of bytes, sm and inputs, or NULL: where it holds */
    int64_t *values; /* numbers, or indices of words: each once and allowed, in the order of the text */
    uint32_t count;
} kiln__tune;

typedef struct kiln__entry_point {
    char *name;
    char *align; /* formula: bytes that every pointer must be aligned to */
} kiln__entry_point;

/* A piece of memory that a template owns; its bytes follow. */
typedef struct kiln__owned {
    struct kiln__owned *next;
} kiln__owned;

typedef struct kiln__template {
    kiln__owned *owned; /* all memory that the fields point to, except borrowed texts */
    char *name, *doc;
    char *origin;                        /* of a user's template: its path, or "defined"; NULL for Kiln's own */
    char *reference;                     /* the op expression that computes the same, or NULL */
    kiln_tolerance tolerance;            /* of results that are compared; all zero: not declared */
    kiln__dtype dtypes[KILN__DTYPE_END]; /* that it takes, the first where a spec names none */
    uint32_t dtype_count;
    uint32_t min_inputs, max_inputs; /* of the op that it takes; both 0: its arithmetic stands in its text */
    kiln__let lets[KILN__LETS_MAX];
    uint32_t let_count;
    kiln__declared_param params[KILN__PARAMS_MAX];
    uint32_t param_count;
    kiln__require requires[KILN__REQUIRES_MAX];
    uint32_t require_count;
    kiln__tune tunes[KILN__TUNES_MAX]; /* of several for a parameter the first that holds counts */
    uint32_t tune_count;
    kiln__require bounds[KILN__REQUIRES_MAX]; /* where one does not hold, a spec is not worth trying */
    uint32_t bound_count;
    kiln__entry_point entries[KILN__ENTRIES_MAX];
    uint32_t entry_count;
    kiln__arguments arguments;
    char *joint; /* formula: not 0 where an op's folds are joint, see kiln__rows_make; NULL: never */
    char *picks; /* formula: not 0 where one thread adds the only element of a sum; NULL: never */
    char *tile;  /* formula: elements per block of threads; NULL: not declared */
    char *options[KILN__TEMPLATE_OPTIONS_MAX]; /* words of the options for the CUDA text */
    uint32_t option_count;
    const char *text;            /* the CUDA text, borrowed where origin is NULL */
    const char *body;            /* where in it the leading declarations end: units begin there */
    uint32_t body_line;          /* the number of that line */
    bool indexed;                /* it passes the number of an element to the op */
    bool includes, cpu_includes; /* a user's text, or its twin, may include headers */
    const char *cpu_text;        /* its cpu twin, NULL if there is none; borrowed as `text` is */
} kiln__template;

/* Reads the declarations of `text`. Both texts are borrowed for the template's life where `origin`, see the struct, is
 * NULL, else copied; messages name the file where it is a path. `trusted` leaves out the check of the formulas: a test
 * checks those of Kiln's own, so that a process that starts need not. Errors: KILN_ESPEC naming the line,
 * KILN_ENOMEM. */
kiln_status kiln__template_read(kiln__template **out, const char *text, const char *cpu_text, const char *origin,
                                bool trusted, kiln_report *report);
void kiln__template_free(kiln__template *template);

/* KILN_ESPEC, naming the line, where kiln_cpu in the cpu twin indexes an argument that is not declared by a number.
 * Other indices are not seen. */
kiln_status kiln__template_check_twin(const kiln__template *template, kiln_report *report);

/* What a formula may ask about the spec beside parameters and sizes. */
typedef enum kiln__fact {
    KILN__FACT_BYTES,        /* of an element of the widest input */
    KILN__FACT_OUT_BYTES,    /* of an element of the widest result */
    KILN__FACT_N_HINT,       /* the elements that are expected, as a power of two */
    KILN__FACT_COLS_HINT,    /* the length of rows that is expected */
    KILN__FACT_SM,           /* 90 for sm_90; 0 for the cpu */
    KILN__FACT_SHARED_LIMIT, /* bytes of shared memory that a block may have */
    KILN__FACT_CORES,        /* multiprocessors */
    KILN__FACT_INPUTS,
    KILN__FACT_CROSSING,   /* inputs that are contiguous along the second dimension */
    KILN__FACT_FULL,       /* inputs that have all rows and columns */
    KILN__FACT_LIVE,       /* values of an element that a row keeps: see kiln__rows_live */
    KILN__FACT_FULL_OUT,   /* outputs that have all rows and columns */
    KILN__FACT_COLUMN_OUT, /* outputs that have one value for a row */
    KILN__FACT_SCANS,      /* whether the op scans the axis */
    KILN__FACT_STAGES,     /* walks along the axis before the results are known, that of the scans included */
    KILN__FACT_WALKS,      /* likewise where folds are joint */
    KILN__FACT_FOLD,       /* the most bytes that the folds of a stage have on a GPU */
    KILN__FACT_OPERATIONS,
    KILN__FACTS
} kiln__fact;

const char *kiln__fact_name(kiln__fact fact); /* "cols_hint" */

/* KILN__FACTS if there is none of that name. */
kiln__fact kiln__fact_find(kiln__word name);

/* Index of a parameter, -1 if there is none. */
int kiln__template_param(const kiln__template *template, const char *name, size_t length);

/* Whether it takes arrays of a dtype, and its dtype where a spec leaves that open. */
bool kiln__template_takes(const kiln__template *template, kiln__dtype dtype);
kiln__dtype kiln__template_dtype(const kiln__template *template);

/* Whether an array of it has the type of the result, "otype", which a spec can name with out=. */
bool kiln__template_has_result(const kiln__template *template);

/* Whether the inputs of the op may be a row, a column or an element for all, which a spec names with layout=. */
bool kiln__template_broadcasts(const kiln__template *template);

/* Whether its arrays may have any strides, which a spec describes with layout=3d(...). */
bool kiln__template_strided(const kiln__template *template);

/* Whether the inputs of the op may have different types, "itype", which a spec names with dtype=(...). */
bool kiln__template_has_types(const kiln__template *template);

/* Whether it takes an op. */
static inline bool kiln__template_takes_op(const kiln__template *template)
{
    return template->max_inputs > 0;
}

/* KILN_ESPEC where it takes no ops, or none like this one, by its inputs, outputs and scalars. NULL: any op. */
kiln_status kiln__template_check_op(const kiln__template *template, const kiln__real *op, kiln_report *report);

#endif
