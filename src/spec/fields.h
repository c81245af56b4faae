/* The fields of a spec while parsing, wisdom and tuning change them; spec/spec.h makes an immutable spec of them.
 * docs/spec.md describes the language. */
#ifndef KILN_SPEC_FIELDS_H
#define KILN_SPEC_FIELDS_H

#include "base/text.h"
#include "lang/dtype.h"
#include "lang/expr.h"
#include "lang/reduction.h"
#include "lang/typing.h"
#include "spec/catalog.h"
#include "spec/target.h"

/* Which arithmetic: that of PyTorch's CUDA kernels, the same with CUDA's fast functions of float32, or one with equal
 * bits on every GPU and cpu. */
typedef enum kiln__math {
    KILN__MATH_UNSET,
    KILN__MATH_TORCH,
    KILN__MATH_FAST,
    KILN__MATH_PORTABLE,
    KILN__MATH_END
} kiln__math;

/* Where an expression rounds to the type of its values: at its end, or at each of its steps. */
typedef enum kiln__round { KILN__ROUND_UNSET, KILN__ROUND_FUSED, KILN__ROUND_EAGER, KILN__ROUND_END } kiln__round;

/* The number that all values of a result become, behind the op. */
typedef enum kiln__total { KILN__TOTAL_NONE, KILN__TOTAL_MEAN, KILN__TOTAL_SUM, KILN__TOTAL_END } kiln__total;

/* Plain data that borrows the catalog, and the expression from a spec or from the room in which it was parsed. */
typedef struct kiln__fields {
    const kiln__catalog *catalog;
    const kiln__template *template; /* the named one, else the ops' own: elementwise */
    const kiln__real *op;           /* never NULL; without nodes where no op is set */
    bool op_set, template_set, target_set, n_set, param_set[KILN__PARAMS_MAX];
    kiln__dtype dtype;                      /* of the inputs, or what they are promoted to; KILN__DTYPE_UNSET if open */
    kiln__dtype inputs[KILN__INPUTS_MAX];   /* of each input, where they differ, "dtype=(f16,f32)" */
    uint32_t typed;                         /* how many of them are set; 0: all have the dtype */
    kiln__dtype results[KILN__OUTPUTS_MAX]; /* of each output, "out=(f16,f32)", where the template declares otype */
    bool results_listed;                    /* out= is a list, which must have one type for each output */
    uint32_t result_count;                  /* how many of them are set; 0: open, 1: the first is that of all */
    kiln__layout layouts[KILN__OPERANDS_MAX]; /* of each input, "layout=(full,row)"; of strided arrays of each output
                                                 and each input, "layout=3d(unit,any)" */
    uint32_t layout_count;                    /* how many of them are set; 0: all are full, or unit in one dimension */
    uint32_t layout_dims;                     /* the dimensions of strided arrays; 0: none */
    kiln__math math;                          /* KILN__MATH_UNSET if open */
    kiln__round round;                        /* likewise */
    kiln__axis axis;               /* of tensors: that the op reduces. No kernel knows it, the tensors choose one */
    bool axis_set, keep, keep_set; /* keep: outputs that the op reduces have the extent 1 there */
    kiln__total reduce;            /* likewise: of the results of all rows */
    kiln__target target;
    int64_t params[KILN__PARAMS_MAX]; /* numbers, or indices of words, in the template's order */
    uint64_t n;                       /* a hint, never part of the canonical text that keys use */
    uint64_t cols;                    /* likewise the elements of a row, where n is written as ROWSxCOLS; else 0 */
} kiln__fields;

/* Fields have numbers: those that every template has, then the template's parameters. */
enum { KILN__FIELDS_FIXED = 12 };

static inline int kiln__fields_count(const kiln__fields *fields)
{
    return KILN__FIELDS_FIXED + (int)fields->template->param_count;
}

/* The number of a field; -1: the template has no such field. */
int kiln__fields_find(const kiln__template *template, kiln__word name);

/* Appends the value of a field by its number, nothing if unset. */
void kiln__fields_append(const kiln__fields *fields, int id, kiln__text *out);

/* All fields open. */
void kiln__spec_init(kiln__fields *out, const kiln__catalog *catalog);

/* Changes the template, of which the spec keeps what it has set. KILN_ESPEC: the template does not take all of it. */
kiln_status kiln__fields_change_template(kiln__fields *fields, const kiln__template *template, kiln_report *report);

/* Where the template reduces rows, and the spec names no n: sets n and the length of rows from the sizes of a
 * launch, which stand in the template's order. */
void kiln__fields_take_sizes(kiln__fields *fields, const uint64_t *sizes, size_t count);

/* A size that geometry depends on, where few stand for all: n is rounded to a power of two. Where it has rows and
 * columns, rows are, cols are those of kiln__number_step, and n is their product. */
typedef struct kiln__size {
    uint64_t n;
    uint64_t rows, cols; /* 0: n has none */
} kiln__size;

/* Of n elements in rows of `cols`; 0: they have no rows. All is 0 where n is. */
kiln__size kiln__size_round(uint64_t n, uint64_t cols);

/* Of the n of a spec. All is 0 where it is not set. */
kiln__size kiln__fields_size(const kiln__fields *fields);

/* How many inputs its op has, 0 as long as it is open; without an op, how many arrays the template reads. */
uint32_t kiln__spec_inputs(const kiln__fields *spec);

/* The op that computes the same as the spec's template, by the template's declaration: fields with that op, in `room`,
 * and the spec's dtype. KILN_ENOENT where it declares none. */
kiln_status kiln__spec_reference(kiln__fields *out, kiln__real *room, const kiln__fields *spec, kiln_report *report);

/* Cuts the next "field=value" off the front of *line; one of an empty name at its end. Blanks within parentheses are
 * part of the value, and in an op those before anything but another field. Errors: KILN_ESPEC (no '=', a parenthesis
 * left open). */
kiln_status kiln__spec_next_field(kiln__word *line, kiln__word *field, kiln__word *value, kiln_report *report);

/* Sets one field from text; an empty value unsets it. An op is parsed into `room`, which the fields borrow from then
 * on. On failure the fields are unchanged. Names: op, template, dtype, out, layout, math, round, axis, keep, reduce,
 * the template's parameters, target, n. Unknown fields name the closest. Changing the template with parameters set
 * keeps those that the new one declares. */
kiln_status kiln__spec_set(kiln__fields *spec, kiln__real *room, kiln__word field, kiln__word value,
                           kiln_report *report);

/* Sets the fields of a line, "field=value field=value ..." (spaces, tabs and newlines between; none inside a value
 * except within parentheses); an empty value unsets a field. A field given twice is an error. Also checks every
 * constraint whose names are all set. `room` is as for kiln__spec_set. On failure the fields must not be used.
 * Errors: KILN_ESPEC, KILN_EOP, KILN_ETARGET, KILN_ENOMEM. */
kiln_status kiln__fields_update(kiln__fields *fields, kiln__real *room, const char *text, kiln_report *report);

/* The same, starting from open fields. */
kiln_status kiln__fields_parse(kiln__fields *out, kiln__real *room, const kiln__catalog *catalog, const char *text,
                               kiln_report *report);

/* The arithmetic of a spec that names none. */
kiln__math kiln__math_default(const kiln__template *template);

/* Whether a GPU calls CUDA's fast functions: math=fast where values are floats. */
bool kiln__spec_is_fast(const kiln__fields *spec);

/* Whether the results on every device have the same bits. */
bool kiln__spec_is_exact(const kiln__fields *spec);

/* Appends the canonical text: fields in the order op, template, dtype, out, layout, math, round, axis, keep and reduce
 * (template, out, math, round, axis, keep and reduce only if not the default), parameters in the template's order,
 * target; fields not set are left out. With `with_hints` n= too, last. */
void kiln__spec_format(const kiln__fields *spec, bool with_hints, kiln__text *out);

/* The same without hints, as if the target were not set, and with x, y, z as the names of the inputs: what is compiled
 * depends on neither. */
void kiln__spec_format_anywhere(const kiln__fields *spec, kiln__text *out);

/* Appends the value of one field, nothing if unset. KILN_ENOENT for an unknown field. */
kiln_status kiln__spec_value(const kiln__fields *spec, const char *field, kiln__text *out);

/* Fills every open field (op must be set; dtype becomes the template's first or f32, target the given one, parameters
 * their defaults) and checks ranges and the number of inputs, but no constraint. `out` may be the spec. Errors:
 * KILN_ESPEC that names the wrong field; *out is unchanged then. */
kiln_status kiln__spec_fill(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                            kiln_report *report);

/* As fill, and checks all constraints. */
kiln_status kiln__spec_resolve(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                               kiln_report *report);

/* Checks every constraint of the template for which `spec` has all values: a spec as given or, where `target` is not
 * NULL, the resolution of `given` for it. Errors: KILN_ESPEC that names the values, the reason and the nearest values
 * that hold. */
kiln_status kiln__requires_check(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                 kiln_report *report);

/* Elements per block of threads, as the template of a resolved spec declares; 0: it does not. KILN_ESPEC. */
kiln_status kiln__spec_tile(const kiln__fields *spec, uint64_t *out, kiln_report *report);

/* The plan of a resolved spec's arguments. The caller frees it with kiln__free. KILN_ESPEC, KILN_ENOMEM. */
kiln_status kiln__spec_plan(kiln__plan **out, const kiln__fields *spec, kiln_report *report);

/* Value of a formula of the template under a resolved spec; KILN_ESPEC if it fails. */
kiln_status kiln__spec_eval(const kiln__fields *spec, const char *formula, int64_t *out, kiln_report *report);

/* ---- Types of values and results (spec/result.c) */

/* The types of the values of its op. The dtype is set. */
void kiln__spec_type(const kiln__fields *spec, kiln__typing *out);

/* Whether some values are calculated in a type: f64, f32, i64 or i32. The dtype is set. */
bool kiln__spec_computes_in(const kiln__fields *spec, kiln__dtype type);

/* How many outputs its op has, 1 as long as it is open. */
uint32_t kiln__spec_outputs(const kiln__fields *spec);

/* The type of an output: the one that is set, else by PyTorch's rules (lang/typing.h). KILN__DTYPE_UNSET as long as the
 * dtype or the op is open. */
kiln__dtype kiln__spec_result(const kiln__fields *spec, uint32_t output);

/* Sets the types of all outputs. */
void kiln__spec_fill_results(kiln__fields *spec);

/* Whether some output has another type than these rules give it. */
bool kiln__spec_casts(const kiln__fields *spec);

/* Whether some output has another type than the dtype. */
bool kiln__spec_has_other_results(const kiln__fields *spec);

/* The type of input k of the op. The dtype is set. */
kiln__dtype kiln__spec_input(const kiln__fields *spec, uint32_t k);

/* The word for a layout, "row". */
const char *kiln__layout_name(kiln__layout layout);

/* Appends " dtype=f32", a field by its name. */
void kiln__spec_append(const kiln__fields *spec, const char *field, kiln__text *out);

/* How input k of the op lies, in a template that broadcasts or has strides. */
kiln__layout kiln__spec_layout(const kiln__fields *spec, uint32_t k);

/* The layout of an input in a spec without layout=, where the template takes none of strides. */
kiln__layout kiln__spec_plain_layout(const kiln__fields *spec, uint32_t k);

/* How many inputs have it. */
uint32_t kiln__spec_inputs_of(const kiln__fields *spec, kiln__layout layout);

/* How output k lies, in a template that has strides or reduces. */
kiln__layout kiln__spec_out_layout(const kiln__fields *spec, uint32_t k);

/* The operands of the template's arguments. The dtype is set; an open result counts as the dtype. `named`: with the
 * names of the expression, which are borrowed; else all specs of a kernel have the same. */
kiln__operands kiln__spec_operands(const kiln__fields *spec, bool named);

/* The bytes of an element of the widest input, and of the widest output, of which those with an element for a row do
 * not count. The dtype is set. */
unsigned kiln__spec_bytes(const kiln__fields *spec);
unsigned kiln__spec_out_bytes(const kiln__fields *spec);

/* The element of an array that is input k for element i of the outputs. The outputs have so many columns where the
 * template broadcasts, and `inner` rows beside each other in memory, 1 but for the template columns. */
double kiln__spec_input_value(const kiln__fields *spec, uint32_t k, const void *array, uint64_t i, uint64_t columns,
                              uint64_t inner);

/* Which nodes of the op have several values along the axis that it reduces. */
void kiln__spec_varies(const kiln__fields *spec, bool out[KILN__REAL_NODES_MAX]);

/* KILN_ESPEC where the op has no value for numbers of the dtype. */
kiln_status kiln__spec_check_numbers(const kiln__fields *spec, kiln_report *report);

/* ---- Results of ops whose definition bounds their error (spec/reference.c) */

typedef struct kiln__worst_error {
    double worst; /* in units of the last place; infinity where one is NaN and the other is not */
    double got, want;
    uint64_t where;
} kiln__worst_error;

/* The op of a spec, if its definition has a bound and it is called alone with its inputs in order, else NULL. */
const kiln__op *kiln__reference_op(const kiln__fields *spec);

/* Compares n elements of an output. The spec has such an op, and its dtype is set. `scalars` may be NULL where the op
 * has none. */
void kiln__reference_compare(const kiln__fields *spec, uint32_t output, uint64_t n, const void *results,
                             const void *const *in, const double *scalars, kiln__worst_error *out);

#endif
