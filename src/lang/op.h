/* The table of ops, Kiln's rows of kernel_templates/ops.txt and user-defined ones, and the C functions that their
 * definitions call. A definition is "swish_clip(x; lo=0, hi=6) = x * min(max(x + 3, lo), hi) / 6 within 2 ulp of ...";
 * see docs/ops.md. */
#ifndef KILN_LANG_OP_H
#define KILN_LANG_OP_H

#include "base/report.h"
#include "base/text.h"
#include "lang/word.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    KILN__INPUTS_MAX = 8,
    KILN__OUTPUTS_MAX = 8,
    KILN__SCALARS_MAX = 8,
    KILN__LETTERS = 3, /* x, y and z, the inputs of a definition that names none */
    KILN__OP_ARGS_MAX = 8,
    KILN__OP_CASES_MAX = 4,
    KILN__OPS_MAX = 1024,
    KILN__OP_NAME_SIZE = 41,
    KILN__DEFINITION_MAX = 16384, /* characters */
    KILN__FUNCTIONS_MAX = 64
};

/* "x", "y", "z", then "x4" to "x8": the inputs of every op and expression in C text. */
extern const char *const kiln__input_names[KILN__INPUTS_MAX];

/* Whether a name is x, y or z. */
bool kiln__op_is_letter(kiln__word name);

typedef struct kiln__real kiln__real; /* lang/real.h */

/* The notes of an op: lines beneath its row, by the word that they begin with. */
typedef enum kiln__op_note {
    KILN__NOTE_DOC,
    KILN__NOTE_NAN,       /* NaN, infinities and signed zeros */
    KILN__NOTE_ELSEWHERE, /* other definitions, and how to ask for them */
    KILN__NOTES
} kiln__op_note;

/* Another expression that stands for the op's in some dtypes, perhaps on some targets alone. */
typedef struct kiln__op_case {
    char *guard;   /* a condition of the C preprocessor: "defined(KILN_DTYPE_F16)" */
    bool integers; /* it stands for the op's where values are whole numbers */
    kiln__real *real;
} kiln__op_case;

typedef struct kiln__op {
    char *name;
    char *signature;          /* "hardtanh(x; lo=-1, hi=1)" */
    char *definition;         /* signature and expression, on one line, as it was read */
    char *notes[KILN__NOTES]; /* lines, each ending with '\n'; "" where there is none */
    char *text;               /* the C functions, one for each output, for pasting into a unit */
    char *functions;          /* with other bits on the cpu than on a GPU, and their bounds: "exp 4 ulp, erf 4 ulp" */
    char *fast_functions;     /* that math=fast replaces, likewise */
    uint32_t inputs, params, outputs, case_count;
    uint32_t columns; /* inputs that have one element for each row, as bits */
    kiln__op_case cases[KILN__OP_CASES_MAX];
    char *input_names[KILN__INPUTS_MAX];
    char *param_names[KILN__OP_ARGS_MAX];
    double defaults[KILN__OP_ARGS_MAX]; /* of the params */
    uint32_t operations;                /* calls of primitives in it, those of the ops that it calls included */
    kiln__real *real;                   /* its expression, where no case applies */
    bool bounded;                       /* the definition bounds the error of results: */
    kiln__real *reference;              /* against this expression in double, or `real` where it is NULL, */
    double ulps;                        /* by so many units of the last place */
} kiln__op;

/* A row of ops.txt that has been found and not read. */
typedef struct kiln__op_row {
    char name[KILN__OP_NAME_SIZE];
    kiln__word definition, notes; /* notes: the indented lines beneath it */
} kiln__op_row;

/* Ops have numbers: first Kiln's, in the order of their rows, then user-defined ones. A row is read when its op is
 * first asked for. Any thread may do that at any time. One thread at a time adds an op, while any thread reads: a
 * counted op is whole and stays until fini. */
typedef struct kiln__op_table {
    kiln__op_row *rows;
    uint32_t row_count;
    _Atomic(kiln__op *) *read; /* the op of each row, NULL until it is read */
    atomic_uint count;         /* of all */
    kiln__op **added;          /* user-defined; NULL: none yet */
} kiln__op_table;

/* Finds the rows of a text, which must live as long as the table. Errors: KILN_ESPEC naming the line, KILN_ENOMEM;
 * the table is empty then. */
kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report);
void kiln__op_table_fini(kiln__op_table *table);

/* An op that has been found, loaded or added before. */
static inline kiln__op *kiln__op_at(const kiln__op_table *table, uint32_t i)
{
    return i < table->row_count ? atomic_load_explicit(&table->read[i], memory_order_acquire)
                                : table->added[i - table->row_count];
}

/* The name of any op; NULL after the last. */
const char *kiln__op_name(const kiln__op_table *table, uint32_t i);

/* Reads op number i if it is a row that has not been read. Errors: KILN_EOP (the row is no definition), KILN_ENOMEM. */
kiln_status kiln__op_load(const kiln__op_table *table, uint32_t i, kiln_report *report);

/* The number of an op, read, or -1 in *out where there is none of that name among the first `limit`. Errors: as for
 * load. */
kiln_status kiln__op_find(const kiln__op_table *table, kiln__word name, uint32_t limit, int *out, kiln_report *report);

/* Reads a definition that calls ops of the table, to which nothing is added. The caller frees *out. Errors: KILN_EOP
 * with the place, KILN_ENOMEM. */
kiln_status kiln__op_read(kiln__op **out, const kiln__op_table *table, const char *definition, kiln_report *report);
void kiln__op_free(kiln__op *op);

/* The expressions of an op: number 0 is its own, those of its cases follow. */
static inline const kiln__real *kiln__op_expression(const kiln__op *op, uint32_t i)
{
    return i == 0 ? op->real : op->cases[i - 1].real;
}

/* Its expression where values are whole numbers. */
static inline const kiln__real *kiln__op_of_integers(const kiln__op *op)
{
    for (uint32_t i = 0; i < op->case_count; i++)
        if (op->cases[i].integers)
            return op->cases[i].real;
    return op->real;
}

/* Whether its results have the same bits on every device. */
static inline bool kiln__op_is_exact(const kiln__op *op)
{
    return op->functions[0] == '\0';
}

/* Whether it calls a function that has a fast form, which math=fast takes. */
static inline bool kiln__op_has_fast(const kiln__op *op)
{
    return op->fast_functions[0] != '\0';
}

/* Whether math=portable can build it. */
bool kiln__op_is_portable(const kiln__op *op);

/* Whether two definitions mean the same. */
bool kiln__op_equal(const kiln__op *a, const kiln__op *b, const kiln__op_table *table);

/* Reads a definition and adds the op. One thread at a time. An op that is in the table with an equal definition
 * stays as it is, and that is KILN_OK. Errors: as for read, and KILN_EOP where the name is taken or the table full. */
kiln_status kiln__op_define(kiln__op_table *table, const char *definition, kiln_report *report);

/* The functions of kernel_templates/functions.h, in its order: a function stands behind those that it calls. Each
 * begins with a line "//! function NAME(inputs)". Points into the file's text. */
typedef struct kiln__functions {
    uint32_t count;
    struct {
        kiln__word name, text; /* the text is the C function kiln_NAME, without its declaration and documentation */
    } at[KILN__FUNCTIONS_MAX];
} kiln__functions;

/* Finds the functions of a text. KILN_ESPEC: the last line "//! end" is missing, or there are too many. */
kiln_status kiln__functions_find(kiln__functions *out, const char *text, kiln_report *report);

/* Marks all that the marked ops call, `with_references` also what their references call. */
void kiln__ops_close(const kiln__op_table *table, bool marked[KILN__OPS_MAX], bool with_references);

/* Appends the C text of the ops that an expression calls, of all that these call, and before them of the functions,
 * where values are whole numbers or real ones. `nodes`: at the marked nodes alone, unless that is NULL. */
void kiln__ops_append(const kiln__op_table *table, const kiln__functions *functions, bool whole,
                      const kiln__real *expression, const bool *nodes, kiln__text *out);

#endif
