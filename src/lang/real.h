/* Expressions of real numbers, as definitions of ops have them: "x * fminf(fmaxf(x + 3.0f, 0.0f), hi) / 6".
 *
 * C's operators ?: || && == != < <= > >= + - * / ! unary - + and parentheses; numbers, which are real (1 / 6 is a
 * sixth), with C's suffix f rounded to float32; inf; the names of inputs and parameters; calls of functions and ops. A
 * comparison is 1 or 0, and every value but 0 is true. "where a = EXPRESSION, b = EXPRESSION" behind an expression
 * names values that it has several times; b may use a. A reduction, sum(x) or max(x), has one value for all elements of
 * an axis. A scan, cumsum(x), has one for each, of those up to it. The grammar is closed. Expressions are bounded in
 * length and depth, so that no text costs a compiler more than one of Kiln's own ops. Pure. */
#ifndef KILN_LANG_REAL_H
#define KILN_LANG_REAL_H

#include "lang/dtype.h"
#include "lang/op.h"
#include <stddef.h>

enum {
    KILN__REAL_NODES_MAX = 256,
    KILN__REAL_DEPTH_MAX = 48,   /* of a definition, with the ops that it calls */
    KILN__REAL_DEPTH_FREE = 192, /* of the expression of a spec, likewise */
    KILN__REAL_ARGS_MAX = KILN__INPUTS_MAX + KILN__OP_ARGS_MAX,
    KILN__REAL_LOCALS_MAX = 64,
    KILN__REAL_REDUCTIONS_MAX = 16,
    KILN__REAL_OPERATIONS_MAX = 2048 /* calls of primitives in an op */
};

typedef enum kiln__real_kind {
    KILN__REAL_NUMBER,
    KILN__REAL_INPUT,
    KILN__REAL_PARAM,
    KILN__REAL_SCALAR, /* a number that is given at launch */
    KILN__REAL_INDEX,  /* the number of the element, from 0 */
    KILN__REAL_NEGATE,
    KILN__REAL_NOT,
    KILN__REAL_BINARY, /* index: a kiln__operator */
    KILN__REAL_CHOICE,
    KILN__REAL_FUNCTION, /* index: into the table of primitives */
    KILN__REAL_OP,       /* index: into the table of ops */
    KILN__REAL_REDUCTION /* index: a kiln__reduction; value: the correction of var and std, the bits of a scan */
} kiln__real_kind;

typedef struct kiln__real_node {
    uint8_t kind;   /* a kiln__real_kind */
    uint8_t output; /* of an op, which of its outputs */
    bool pointed;   /* a number that is real, because it is written with a point */
    bool constant;  /* a number or parameter, or a sum, product or quotient of such */
    bool scalar;    /* a constant that has a parameter */
    bool truth;     /* the value is that of a comparison */
    bool varies;    /* along the axis: it takes an input or the index other than through a reduction */
    bool scans;     /* it takes the value of a scan */
    bool inside;    /* it is of the body of an op */
    uint16_t index, depth, count;
    uint16_t body; /* of an expanded call: the node whose value it is, its definition with these arguments; else 0 */
    uint16_t args[KILN__REAL_ARGS_MAX];
    double value;
} kiln__real_node;

/* Plain data. May be copied up to the size below: the nodes behind the last are never
 * written or read, and may be missing. */
struct kiln__real {
    uint32_t count;
    uint32_t inputs;                   /* how many inputs it needs, up to the last that it names */
    uint32_t outputs;                  /* how many values it gives */
    uint32_t columns;                  /* inputs that are columns of the ops it calls, as bits */
    uint32_t scalars;                  /* numbers given at launch */
    uint32_t operations;               /* calls of primitives in it */
    uint16_t roots[KILN__OUTPUTS_MAX]; /* the node of each output */
    uint32_t local_count;
    uint16_t locals[KILN__REAL_LOCALS_MAX]; /* the nodes that "where" names, each before those that use it */
    bool portable;       /* all that it calls has a form with the same bits everywhere, which math=portable takes */
    bool fast;           /* it calls a function that has a fast form, which math=fast takes */
    bool whole;          /* it gives whole numbers, if the inputs and the parameters are such */
    bool mixed;          /* of its outputs some give whole numbers, if those are such, and some do not */
    bool wide;           /* some number in it needs more than 32 bits */
    bool integral;       /* it has no value for other inputs */
    bool exact;          /* it has the same bits on every device */
    bool indexed;        /* it takes the number of the element */
    bool summed;         /* it has sums or products along the axis, whose bits depend on the order of the elements */
    bool scans;          /* it has scans */
    bool reverse;        /* which begin at the end of the axis */
    uint32_t reductions; /* how many nodes reduce or scan the axis */
    /* Of the expression of a spec, which names them itself; an output may have no name. */
    char input_names[KILN__INPUTS_MAX][KILN__OP_NAME_SIZE];
    char output_names[KILN__OUTPUTS_MAX][KILN__OP_NAME_SIZE];
    char scalar_names[KILN__SCALARS_MAX][KILN__OP_NAME_SIZE];
    kiln__real_node nodes[KILN__REAL_NODES_MAX];
};

static inline const kiln__real_node *kiln__real_root(const kiln__real *real, uint32_t output)
{
    return &real->nodes[real->roots[output]];
}

static inline size_t kiln__real_size(const kiln__real *real)
{
    return offsetof(kiln__real, nodes) + real->count * sizeof(real->nodes[0]);
}

/* Whether a definition takes the place of its calls, which then are no steps of one type: it reduces an axis, or has
 * the number of the element. */
static inline bool kiln__real_is_expanded(const kiln__real *real)
{
    return real->reductions > 0 || real->indexed;
}

/* The meaning of names in an expression. */
typedef struct kiln__real_scope {
    const kiln__op_table *ops;
    uint32_t op_limit; /* only the ops before this one are known */
    const char *op;    /* the one being defined, for messages */
    uint32_t inputs, params;
    const char *const *input_names;
    char *const *param_names;
    const char *text; /* the text that *at points into, for places in messages */
    const char *end;  /* its end; NULL: its NUL */
    bool free; /* the expression of a spec: other names are inputs, parameters of ops are numbers or scalars, outputs
                  may have names, and an outermost op may leave out its inputs */
} kiln__real_scope;

/* Reads the expression at *at into *out and leaves *at behind it; that of a spec ends with its text. Errors: KILN_EOP
 * with the place and the closest names, KILN_ENOMEM; *out has no nodes then. */
kiln_status kiln__real_read(kiln__real *out, const kiln__real_scope *scope, const char **at, kiln_report *report);

/* The same into memory of just the size, which is freed with kiln__free. */
kiln_status kiln__real_parse(kiln__real **out, const kiln__real_scope *scope, const char **at, kiln_report *report);

/* KILN_EOP that names the op of a definition and the place. */
kiln_status kiln__real_fail(const kiln__real_scope *scope, const char *at, kiln_report *report, const char *format, ...)
    KILN__PRINTF(4, 5);

/* Whether a name has a meaning in definitions: "within" or, with `functions`, that of a function, "fminf". */
bool kiln__real_is_reserved(kiln__word name, bool functions);

/* Whether a node's value is that of an operator which is true or false: a comparison, or a logical one (&& || !). */
bool kiln__real_is_condition(const kiln__real_node *node);
bool kiln__real_is_comparison(const kiln__real_node *node);
bool kiln__real_is_logical(const kiln__real_node *node);

/* Whether a node is an operator / by a number or a parameter: PyTorch multiplies by its reciprocal. */
bool kiln__real_is_over_scalar(const kiln__real *real, const kiln__real_node *node);

/* Whether a node is an operator / that calls div. */
bool kiln__real_is_division(const kiln__real *real, const kiln__real_node *node);

/* The number of the local, among the first `count`, that a node is, or -1. */
int kiln__real_find_local(const kiln__real *real, uint32_t count, uint16_t index);

/* How values become C text in the unit of a spec. */
struct kiln__typing;
typedef struct kiln__real_style {
    const struct kiln__typing *typing;
    bool eager;            /* each step rounds to the type of its value */
    const uint8_t *places; /* of each reduction, the number of its value in the struct kiln_row, by nodes */
} kiln__real_style;

/* The C text of the value of an output: inputs are the C variables x, y, z, a parameter lo is lo_, scalars are s0, s1.
 * The locals, which it calls v0, v1, ..., are C declarations. Of a definition `style` is NULL: it has one type. */
void kiln__real_emit_locals(const kiln__real *real, const kiln__op_table *ops, char *const *param_names,
                            kiln__text *out);
void kiln__real_emit(const kiln__real *real, const kiln__op_table *ops, char *const *param_names,
                     const kiln__real_style *style, uint32_t output, kiln__text *out);

/* The C text of the value of a node as one of a type, or as a condition where that is KILN__DTYPE_UNSET. */
void kiln__real_emit_node(const kiln__real *real, const kiln__op_table *ops, const kiln__real_style *style,
                          uint16_t node, kiln__dtype to, kiln__text *out);

/* The name of a function or type that belongs to a type of values: "kiln_add", "kiln_i64_add". */
void kiln__real_emit_name(const kiln__real_style *style, kiln__dtype in, const char *name, kiln__text *out);

/* Appends the functions that have other bits on a GPU than on the cpu and are not in the text yet: "exp 4 ulp, erf 4
 * ulp", before them "sums" where the order of the elements counts. `fast`: those of which math=fast takes a fast form,
 * with its bound from the true value. */
void kiln__real_append_bounds(const kiln__real *real, const kiln__op_table *ops, bool fast, kiln__text *out);

/* The numbers that an expression takes, as doubles. */
typedef struct kiln__real_numbers {
    const double *inputs, *params, *scalars;
    double index;
} kiln__real_numbers;

/* The value of an output, calculated in double. */
double kiln__real_value(const kiln__real *real, const kiln__op_table *ops, const kiln__real_numbers *numbers,
                        uint32_t output);

/* Whether math=portable can build the function that a node calls. */
bool kiln__real_is_portable(const kiln__real_node *function);

/* The name of the function that a node calls, "exp". */
const char *kiln__real_function_name(const kiln__real_node *node);

/* The value of one node that is an operator or a function, from the values of its arguments. */
double kiln__real_apply(const kiln__real_node *node, const double *arguments);

/* The bound on the distance of the values of such a node on a GPU and on the cpu, from equal arguments: *ulps units in
 * the last place of the number that it returns. 0: none. */
double kiln__real_error_scale(const kiln__real_node *node, const double *arguments, double value, double *ulps);

/* The same bound as a number, where a GPU calls the fast form of the node's function in float32. 0: it has none, or the
 * result is exact. */
double kiln__real_fast_error(const kiln__real *real, const kiln__real_node *node, const double *arguments,
                             double value);

/* Whether two nodes have the same value where their arguments have. */
bool kiln__real_alike(const kiln__real_node *a, const kiln__real_node *b);

/* Whether two nodes have the same value in every row. */
bool kiln__real_same(const kiln__real *real, uint16_t a, uint16_t b);

/* Whether a node rounds to the dtype of the arrays. */
bool kiln__real_stores(const kiln__real_node *node);

/* Marks the ops that it calls, by their index in the table, and the functions unless `functions` is NULL. `nodes`: at
 * the marked nodes alone, unless that is NULL. */
void kiln__real_calls(const kiln__real *real, const bool *nodes, bool *ops, const kiln__functions *functions,
                      bool *function_marks);

#endif
