/* From an expression with reductions to folds by stages, and to their C text. */
#include "spec/rows.h"

#include "base/number.h"
#include "lang/primitive.h"
#include "lang/syntax.h"
#include <stdio.h>
#include <string.h>

/* ---- The plan */

/* The number of the value, which is added where there is none like it. */
static int find_value(kiln__rows *rows, const kiln__real *op, const kiln__row_value *wanted)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        const kiln__row_value *known = &rows->values[i];
        const bool scans = known->stage == KILN__STAGE_OF_SCANS;
        if (known->reduction == wanted->reduction && known->correction == wanted->correction &&
            known->joint == wanted->joint && known->elements == wanted->elements &&
            scans == (wanted->stage == KILN__STAGE_OF_SCANS) && kiln__real_same(op, known->argument, wanted->argument))
            return (int)i;
    }
    rows->values[rows->count] = *wanted;
    return (int)rows->count++;
}

/* The reduction whose value is subtracted from the elements of another one first; KILN__REDUCTIONS: none is. */
static kiln__reduction base_of(kiln__reduction reduction)
{
    switch (reduction) {
    case KILN__REDUCE_VAR:
    case KILN__REDUCE_STD:
        return KILN__REDUCE_MEAN;
    case KILN__REDUCE_LOGSUMEXP:
        return KILN__REDUCE_MAX;
    default:
        return KILN__REDUCTIONS;
    }
}

static bool finds_index(kiln__reduction reduction)
{
    return reduction == KILN__REDUCE_ARGMAX || reduction == KILN__REDUCE_ARGMIN;
}

/* A plan that is being made. */
typedef struct planner {
    kiln__rows *rows;
    const kiln__fields *spec;
    const kiln__typing *typing;
    bool joint;
    bool varies[KILN__REAL_NODES_MAX]; /* whether the elements of a row may have different values of a node */
} planner;

static bool squares(const kiln__row_value *value)
{
    return value->reduction == KILN__REDUCE_VAR || value->reduction == KILN__REDUCE_STD;
}

/* Whether its folds have the sum of the distances, too. Where the mean comes first, that corrects the mean's rounding,
 * which is far below that of 16-bit elements. */
static bool sums_distances(const kiln__row_value *value)
{
    return squares(value) && (value->joint || kiln__dtype_bytes(value->elements) >= 4);
}

/* The node that a call of an op with a definition stands for. */
static uint16_t body_of(const kiln__real *op, uint16_t node)
{
    while (op->nodes[node].body > 0)
        node = op->nodes[node].body;
    return node;
}

static bool is_index(const kiln__real *op, uint16_t node)
{
    return op->nodes[node].kind == KILN__REAL_INDEX;
}

/* The node of t where elements are `index == t ? x : 0`, and t is a whole number that a row has once; -1: no such. */
static int place_of(const planner *p, uint16_t elements)
{
    const kiln__real *op = p->spec->op;
    const kiln__real_node *choice = &op->nodes[body_of(op, elements)];
    if (choice->kind != KILN__REAL_CHOICE)
        return -1;
    const kiln__real_node *equal = &op->nodes[body_of(op, choice->args[0])];
    const kiln__real_node *otherwise = &op->nodes[choice->args[2]];
    if (equal->kind != KILN__REAL_BINARY || equal->index != KILN__OPERATOR_EQ || otherwise->kind != KILN__REAL_NUMBER ||
        otherwise->value != 0)
        return -1;
    const uint16_t place = is_index(op, equal->args[0]) ? equal->args[1] : equal->args[0];
    const bool compares = is_index(op, equal->args[0]) || is_index(op, equal->args[1]);
    const kiln__dtype own = (kiln__dtype)p->typing->own[place];
    return compares && !p->varies[place] && own != KILN__DTYPE_UNSET && !kiln__dtype_is_real(own) ? place : -1;
}

/* Adds a reduction of the elements `argument`, and the one that is its base: see base_of. `node` is the one that has
 * its correction, and `stage` is the first in which the elements are known. */
static int add_value(const planner *p, kiln__reduction reduction, kiln__reduction base, uint16_t argument,
                     uint16_t node, uint32_t stage)
{
    kiln__row_value value = { .reduction = reduction, .argument = argument, .place = -1, .stage = stage, .base = -1 };
    const kiln__dtype own = (kiln__dtype)p->typing->own[argument];
    value.type = kiln__reduction_type(reduction, own);
    value.elements = finds_index(reduction) && own != KILN__DTYPE_BOOL ? own : value.type;
    if ((reduction == KILN__REDUCE_SUM || reduction == KILN__REDUCE_MEAN) && base == KILN__REDUCTIONS &&
        stage != KILN__STAGE_OF_SCANS) /* a base: the terms are exponentials of the elements */
        value.place = place_of(p, argument);
    if (kiln__reduction_corrects(reduction))
        value.correction = p->spec->op->nodes[node].value;
    value.joint = p->joint && base < KILN__REDUCTIONS;
    if (value.joint ? !squares(&value) : base < KILN__REDUCTIONS) {
        kiln__row_value first = {
            .reduction = base,
            .argument = argument,
            .place = -1,
            .stage = stage,
            .base = -1,
            .elements = value.elements,
            .type = value.type /* elements are converted to before it is subtracted */
        };
        value.base = find_value(p->rows, p->spec->op, &first);
    }
    if (value.base >= 0 && !value.joint)
        value.stage = stage + 1;
    return find_value(p->rows, p->spec->op, &value);
}

/* Whether the value of a node is not rounded, nor that of one which it stands for. */
static bool is_plain(const planner *p, uint16_t node)
{
    const bool eager = p->spec->round == KILN__ROUND_EAGER;
    while (!kiln__typing_rounds(p->typing, p->spec->op, node, eager)) {
        if (p->spec->op->nodes[node].body == 0)
            return true;
        node = p->spec->op->nodes[node].body;
    }
    return false;
}

static bool is_exp(const planner *p, const kiln__real_node *node)
{
    const char *name = node->kind == KILN__REAL_FUNCTION ? kiln__primitive_at(node->index)->name
                       : node->kind == KILN__REAL_OP     ? kiln__op_at(&p->spec->catalog->ops, node->index)->name
                                                         : "";
    return strcmp(name, "exp") == 0;
}

/* Whether a node is exp(x - max(x)), and its value is not rounded on the way: then *x is the node of x. */
static bool is_exp_of_distance(const planner *p, uint16_t node, uint16_t *x)
{
    const kiln__real *op = p->spec->op;
    const uint16_t outer = body_of(op, node);
    if (!is_exp(p, &op->nodes[outer]))
        return false;
    const uint16_t inner = body_of(op, op->nodes[outer].args[0]);
    const kiln__real_node *distance = &op->nodes[inner];
    if (distance->kind != KILN__REAL_BINARY || distance->index != KILN__OPERATOR_SUB)
        return false;
    const kiln__real_node *most = &op->nodes[body_of(op, distance->args[1])];
    *x = distance->args[0];
    return most->kind == KILN__REAL_REDUCTION && most->index == KILN__REDUCE_MAX &&
           kiln__real_same(op, most->args[0], *x) && p->typing->own[*x] == p->typing->own[node] &&
           kiln__dtype_is_real((kiln__dtype)p->typing->own[*x]) && is_plain(p, node) &&
           is_plain(p, op->nodes[outer].args[0]);
}

/* The value of a node that reduces or scans; `ready` is the first stage in which a node can be calculated. */
static int add_value_of(const planner *p, uint16_t node, const uint32_t *ready)
{
    const kiln__real_node *reduces = &p->spec->op->nodes[node];
    const kiln__reduction reduction = (kiln__reduction)reduces->index;
    const uint16_t argument = reduces->args[0];
    uint16_t x;
    if (kiln__reduction_scans(reduction))
        return add_value(p, kiln__reduction_of_scan(reduction), KILN__REDUCTIONS, argument, node, KILN__STAGE_OF_SCANS);
    if (reduction == KILN__REDUCE_SUM && p->joint && is_exp_of_distance(p, argument, &x))
        return add_value(p, reduction, KILN__REDUCE_MAX, x, node, ready[x]);
    return add_value(p, reduction, base_of(reduction), argument, node, ready[argument]);
}

void kiln__rows_make(kiln__rows *out, const kiln__fields *spec, const kiln__typing *typing, bool joint)
{
    planner p = { .rows = out, .spec = spec, .typing = typing, .joint = joint };
    const kiln__real *op = spec->op;
    uint32_t ready[KILN__REAL_NODES_MAX]; /* the stage in which a node can be calculated */
    out->count = out->stages = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        const kiln__real_node *node = &op->nodes[i];
        ready[i] = node->body > 0 ? ready[node->body] : 0;
        p.varies[i] = node->kind == KILN__REAL_INDEX || (node->body > 0 && p.varies[node->body]) ||
                      (node->kind == KILN__REAL_INPUT && kiln__spec_layout(spec, node->index) <= KILN__LAYOUT_ROW);
        for (uint32_t j = 0; j < node->count && node->body == 0; j++) {
            ready[i] = ready[node->args[j]] > ready[i] ? ready[node->args[j]] : ready[i];
            p.varies[i] = p.varies[i] || p.varies[node->args[j]];
        }
        if (node->kind != KILN__REAL_REDUCTION)
            continue;
        p.varies[i] = false;
        const int place = add_value_of(&p, (uint16_t)i, ready);
        out->places[i] = (uint8_t)place;
        if (kiln__reduction_scans((kiln__reduction)node->index))
            continue;
        ready[i] = out->values[place].stage + 1;
        out->stages = ready[i] > out->stages ? ready[i] : out->stages;
    }
}

/* How many numbers its folds are. */
static uint32_t members_of(const kiln__row_value *value)
{
    if (value->joint)
        return squares(value) ? 4 : 2;
    return finds_index(value->reduction) || sums_distances(value) ? 2 : 1;
}

/* The bytes of the widest folds: a member has eight at most. */
static uint32_t fold_bytes(const kiln__rows *rows)
{
    uint32_t most = 0;
    for (uint32_t s = 0; s <= rows->stages; s++) {
        uint32_t members = 0;
        for (uint32_t k = 0; k < rows->count; k++)
            if (rows->values[k].stage == (s < rows->stages ? s : KILN__STAGE_OF_SCANS))
                members += members_of(&rows->values[k]);
        most = members > most ? members : most;
    }
    return most * (uint32_t)sizeof(uint64_t);
}

static void make_of_spec(kiln__rows *out, const kiln__fields *spec, bool joint)
{
    kiln__typing typing;
    kiln__spec_type(spec, &typing);
    kiln__rows_make(out, spec, &typing, joint);
}

uint32_t kiln__rows_stages(const kiln__fields *spec, bool joint)
{
    kiln__rows rows;
    make_of_spec(&rows, spec, joint);
    return rows.stages + spec->op->scans;
}

static bool has_joint(const kiln__rows *rows)
{
    bool any = false;
    for (uint32_t k = 0; k < rows->count; k++)
        any = any || rows->values[k].joint;
    return any;
}

bool kiln__rows_may_join(const kiln__fields *spec)
{
    kiln__rows rows;
    make_of_spec(&rows, spec, true);
    return has_joint(&rows);
}

uint32_t kiln__rows_fold_bytes(const kiln__fields *spec)
{
    kiln__rows rows;
    make_of_spec(&rows, spec, true);
    const uint32_t joint = fold_bytes(&rows);
    make_of_spec(&rows, spec, false);
    const uint32_t apart = fold_bytes(&rows);
    return joint > apart ? joint : apart;
}

/* ---- What a row keeps */

/* The number of the first node that has the same value as each. */
static void find_equals(const kiln__real *op, uint16_t equals[])
{
    for (uint16_t i = 0; i < op->count; i++) {
        const kiln__real_node *node = &op->nodes[i];
        uint16_t j = 0;
        for (; j < i; j++) {
            const kiln__real_node *other = &op->nodes[j];
            bool same = kiln__real_alike(other, node);
            for (uint32_t k = 0; k < node->count && same; k++)
                same = equals[other->args[k]] == equals[node->args[k]];
            if (same)
                break;
        }
        equals[i] = j;
    }
}

/* Whether all results take the elements of whole inputs by way of nodes that equal `through`. */
static bool is_only_way(const kiln__fields *spec, const uint16_t equals[], uint16_t through)
{
    const kiln__real *op = spec->op;
    bool passes[KILN__REAL_NODES_MAX], only = true; /* whether elements come to a node another way */
    for (uint32_t i = 0; i < op->count; i++) {
        const kiln__real_node *node = &op->nodes[i];
        passes[i] = node->kind == KILN__REAL_INPUT ? kiln__spec_layout(spec, node->index) == KILN__LAYOUT_FULL
                                                   : node->body > 0 && passes[node->body];
        for (uint32_t k = 0; k < node->count && node->body == 0; k++)
            passes[i] = passes[i] || passes[node->args[k]];
        passes[i] = passes[i] && equals[i] != equals[through];
    }
    for (uint32_t k = 0; k < op->outputs; k++)
        only = only && !passes[op->roots[k]];
    return only;
}

uint32_t kiln__rows_live(const kiln__fields *spec)
{
    const kiln__real *op = spec->op;
    uint16_t equals[KILN__REAL_NODES_MAX];
    bool reduces[KILN__REAL_NODES_MAX];
    const uint32_t full = kiln__spec_inputs_of(spec, KILN__LAYOUT_FULL);
    if (full < 2)
        return full;
    find_equals(op, equals);
    for (uint16_t i = 0; i < op->count; i++) {
        const kiln__real_node *node = &op->nodes[i];
        reduces[i] = node->kind == KILN__REAL_REDUCTION || (node->body > 0 && reduces[node->body]);
        for (uint32_t k = 0; k < node->count; k++)
            reduces[i] = reduces[i] || reduces[node->args[k]];
        if (!reduces[i] && is_only_way(spec, equals, i))
            return 1;
    }
    return full;
}

/* ---- The template */

enum {
    REGISTER_BYTES = 1024 * 128,   /* of the threads of a block, for a row */
    REGISTER_ELEMENTS = 1024 * 32, /* likewise: small ones need registers of their own while they are calculated */
    REGISTER_HALVES = 1024 * 20,   /* likewise, of 16 bits or less: behind that one block has a multiprocessor alone */
    CLUSTER_MOST = 16,             /* blocks */
    CLUSTER_ARRAYS = 8 * 106496,   /* bytes of a row, where joint folds save a walk: two walks are faster behind that */
    RESERVED = 6144,               /* of the shared memory of a block */
    SPLIT_LEAST = 1 << 18,         /* bytes of a row, for several launches to be worth their time */
    CPU_SPLIT_LEAST = 1 << 20,     /* likewise on the cpu, */
    CPU_SPLIT_ROWS = 16            /* for fewer rows than many a processor has cores */
};

/* Whether nothing of a row's length is written. */
static bool is_reduced(const kiln__fields *spec)
{
    for (uint32_t k = 0; k < spec->op->outputs; k++)
        if (kiln__spec_out_layout(spec, k) == KILN__LAYOUT_FULL)
            return false;
    return true;
}

/* The bytes of so many arrays of a row, of one at least; UINT64_MAX: more than can be counted. */
static uint64_t row_bytes(const kiln__fields *spec, uint64_t cols, uint32_t arrays)
{
    uint64_t bytes;
    const bool overflows = __builtin_mul_overflow(cols, kiln__spec_bytes(spec) * (arrays > 0 ? arrays : 1), &bytes);
    return overflows ? UINT64_MAX : bytes;
}

const char *kiln__rows_template(const kiln__fields *spec, const kiln__target *target, bool has_pools, uint64_t rows,
                                uint64_t cols)
{
    const bool scans = spec->op->scans;
    const uint32_t full = kiln__spec_inputs_of(spec, KILN__LAYOUT_FULL);
    const uint32_t arrays = full + kiln__spec_inputs_of(spec, KILN__LAYOUT_ROW);
    const uint64_t bytes = row_bytes(spec, cols, full), cores = (uint64_t)kiln__target_cores(target);
    const uint64_t kept = row_bytes(spec, cols, kiln__rows_live(spec));
    const bool enough = rows >= cores / 2, one_walk = kiln__rows_stages(spec, true) == 1;
    const uint64_t room = (uint64_t)(kiln__target_shared_limit(target) - RESERVED);
    const bool fewer_walks = arrays > 1 && enough && one_walk && kiln__rows_stages(spec, false) > 1;
    const uint64_t most = fewer_walks ? CLUSTER_ARRAYS : CLUSTER_MOST * room;
    const uint32_t size = kiln__spec_bytes(spec);
    const uint32_t elements_most = full == 1 && size <= 2 ? REGISTER_HALVES : REGISTER_ELEMENTS;
    const bool is_long = kept > REGISTER_BYTES || kept / size > elements_most;
    const bool fits = target->sm >= KILN__CLUSTER_SM && bytes <= most && !scans;
    if (target->sm == 0)
        return has_pools && rows < CPU_SPLIT_ROWS && bytes >= CPU_SPLIT_LEAST ? KILN__TEMPLATE_SPLIT
                                                                              : KILN__TEMPLATE_ROWS;
    if (fits && is_long && !(enough && one_walk && is_reduced(spec)))
        return KILN__TEMPLATE_CLUSTER;
    if (has_pools && !fits && bytes > SPLIT_LEAST && rows < (scans ? cores / 2 : cores * 2))
        return KILN__TEMPLATE_SPLIT;
    return KILN__TEMPLATE_ROWS;
}

/* ---- C text */

typedef struct writer {
    const kiln__rows *rows;
    const kiln__fields *spec;
    const kiln__real_style *style;
    bool joint; /* folds have bases of their own: see kiln__rows_make */
    bool picks; /* one thread adds the only element of a sum: see kiln__rows_append */
    kiln__text *out;
} writer;

#define WRITE(w, ...) kiln__text_printf((w)->out, __VA_ARGS__)

/* The end of the names that belong to a stage: "0", "_scan". */
typedef struct suffix {
    char text[12];
} suffix;

static suffix suffix_of(uint32_t stage)
{
    suffix out = { "_scan" };
    if (stage != KILN__STAGE_OF_SCANS)
        snprintf(out.text, sizeof(out.text), "%u", stage);
    return out;
}

static void write_name(const writer *w, kiln__dtype in, const char *name)
{
    kiln__real_emit_name(w->style, in, name, w->out);
}

static void write_elements(const writer *w, const kiln__row_value *value)
{
    kiln__real_emit_node(w->spec->op, &w->spec->catalog->ops, w->style, value->argument, value->elements, w->out);
}

/* The type that folds have while they are not finished. */
static const char *fold_type(const kiln__row_value *value)
{
    return kiln__typing_c_type(value->elements);
}

/* "M(a0) M(i0)": the members of the struct of folds. */
static void write_members(const writer *w, uint32_t stage)
{
    WRITE(w, "#define KILN_FOLDS%s(M)", suffix_of(stage).text);
    for (uint32_t k = 0; k < w->rows->count; k++) {
        const kiln__row_value *value = &w->rows->values[k];
        if (value->stage != stage)
            continue;
        WRITE(w, " M(a%u)", k);
        if (finds_index(value->reduction))
            WRITE(w, " M(i%u)", k);
        if (value->joint)
            WRITE(w, squares(value) ? " M(b%u) M(c%u)" : " M(b%u)", k, k);
        if (sums_distances(value))
            WRITE(w, " M(d%u)", k);
    }
    WRITE(w, "\ntypedef struct kiln_folds%s {\n", suffix_of(stage).text);
    for (uint32_t k = 0; k < w->rows->count; k++) {
        const kiln__row_value *value = &w->rows->values[k];
        if (value->stage != stage)
            continue;
        WRITE(w, "    %s a%u[KILN_SPREAD];\n", fold_type(value), k);
        if (finds_index(value->reduction))
            WRITE(w, "    long long i%u[KILN_SPREAD];\n", k);
        if (value->joint)
            WRITE(w, squares(value) ? "    %s b%u[KILN_SPREAD], c%u[KILN_SPREAD];\n" : "    %s b%u[KILN_SPREAD];\n",
                  fold_type(value), k, k);
        if (sums_distances(value))
            WRITE(w, "    %s d%u[KILN_SPREAD];\n", fold_type(value), k);
    }
    WRITE(w, "} kiln_folds%s;\n", suffix_of(stage).text);
}

/* The number that no element is below or, negative, above. */
static void write_bound(const writer *w, const kiln__row_value *value, bool least)
{
    kiln__dtype computed = kiln__typing_computed(value->elements);
    if (kiln__dtype_is_real(computed))
        WRITE(w, "(%s)%sKILN_INFINITY", fold_type(value), least ? "-" : "");
    else if (value->elements == KILN__DTYPE_U8 || value->elements == KILN__DTYPE_BOOL)
        WRITE(w, least ? "0" : value->elements == KILN__DTYPE_U8 ? "255" : "1");
    else
        WRITE(w, least ? "-%#llx%s - 1" : "%#llx%s",
              0x7fffffffffffffffull >> (64 - 8 * kiln__dtype_bytes(value->elements)),
              computed == KILN__DTYPE_I64 ? "ll" : "");
}

static void write_clear(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (sums_distances(value))
        WRITE(w, value->joint ? "    f->b%u[j] = f->c%u[j] = f->d%u[j] = 0;\n" : "    f->d%u[j] = 0;\n", k, k, k);
    else if (value->joint)
        WRITE(w, "    f->b%u[j] = kiln_lowest(%s());\n", k, fold_type(value));
    WRITE(w, "    f->a%u[j] = ", k);
    switch (value->reduction) {
    case KILN__REDUCE_PROD:
    case KILN__REDUCE_ALL:
        WRITE(w, "1;\n");
        break;
    case KILN__REDUCE_MAX:
    case KILN__REDUCE_MIN:
        write_bound(w, value, value->reduction == KILN__REDUCE_MAX);
        WRITE(w, ";\n");
        break;
    case KILN__REDUCE_ARGMAX:
    case KILN__REDUCE_ARGMIN: /* where no element is above this, all are equal, and the first is */
        write_bound(w, value, value->reduction == KILN__REDUCE_ARGMAX);
        WRITE(w, ", f->i%u[j] = 0;\n", k);
        break;
    default:
        WRITE(w, "0;\n");
    }
}

/* "f->a0[j] = kiln_add(f->a0[j], VALUE);", where the value follows from write_elements or is a text. */
static void write_fold(const writer *w, const kiln__row_value *value, uint32_t k, const char *function,
                       const char *added)
{
    WRITE(w, "    f->a%u[j] = ", k);
    write_name(w, value->elements, function);
    WRITE(w, "(f->a%u[j], ", k);
    if (added != NULL)
        WRITE(w, added, k);
    else
        write_elements(w, value);
    WRITE(w, ");\n");
}

/* An index goes with a value: a later element counts where it is greater, so that the first of equals does. */
static void write_take_index(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "    {\n        const %s t = ", fold_type(value));
    write_elements(w, value);
    WRITE(w, ";\n        const int first = %s(t, f->a%u[j]);\n",
          value->reduction == KILN__REDUCE_ARGMAX ? "KILN_ABOVE" : "KILN_BELOW", k);
    WRITE(w, "        f->a%u[j] = first ? t : f->a%u[j];\n        f->i%u[j] = first ? position : f->i%u[j];\n    }\n",
          k, k, k, k);
}

/* The square of an element, or of its distance from a value of the row, and the distance. */
static void write_take_square(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "    {\n        const %s t = ", fold_type(value));
    if (value->base >= 0)
        write_name(w, value->elements, "sub(");
    write_elements(w, value);
    if (value->base >= 0)
        WRITE(w, ", row->r%d)", value->base);
    WRITE(w, ";\n        f->a%u[j] = ", k);
    write_name(w, value->elements, "fma");
    WRITE(w, "(t, t, f->a%u[j]);\n", k);
    if (sums_distances(value)) {
        WRITE(w, "        f->d%u[j] = ", k);
        write_name(w, value->elements, "add");
        WRITE(w, "(f->d%u[j], t);\n", k);
    }
    WRITE(w, "    }\n");
}

static void write_take_exp(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "    f->a%u[j] = ", k);
    write_name(w, value->elements, "add");
    WRITE(w, "(f->a%u[j], ", k);
    write_name(w, value->elements, "exp(");
    write_name(w, value->elements, "sub(");
    write_elements(w, value);
    WRITE(w, ", KILN_FINITE(row->r%d))));\n", value->base);
}

/* "mul(f->a0[j], exp(sub(f->b0[j], t)))": the sum as it is with another base. */
static void write_rebased(const writer *w, const kiln__row_value *value, uint32_t k, const char *folds,
                          const char *base)
{
    write_name(w, value->elements, "mul(");
    WRITE(w, folds, 'a', k);
    WRITE(w, ", ");
    write_name(w, value->elements, "exp(");
    write_name(w, value->elements, "sub(");
    WRITE(w, folds, 'b', k);
    WRITE(w, ", %s)))", base);
}

/* Of the elements that come soon: the greatest for exp, and the first for squares. */
static void write_peek(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (!value->joint)
        return;
    WRITE(w, squares(value) ? "    f->b%u[j] = f->c%u[j] > 0 ? f->b%u[j] : " : "    f->b%u[j] = kiln_most(f->b%u[j], ",
          k, k, k);
    write_elements(w, value);
    WRITE(w, squares(value) ? ";\n    f->c%u[j] = 1;\n" : ");\n", k);
}

/* For exp the base follows the elements up, and the sum with it. For squares it is the first element, and then at times
 * the mean. */
static void write_settle(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (!value->joint)
        return;
    if (squares(value)) {
        WRITE(w, "    f->b%u[j] = f->c%u[j] > 0 ? f->b%u[j] : g->b%u[i];\n", k, k, k, k);
        WRITE(w, "    if (kiln_may_be_far(f->c%u[j]))\n        ", k);
        WRITE(w, "kiln_rebase(f->a%u[j], f->b%u[j], f->c%u[j], f->d%u[j]);\n", k, k, k, k);
        return;
    }
    WRITE(w, "    if (kiln_is_far(g->b%u[i], f->b%u[j])) {\n        f->a%u[j] = ", k, k, k);
    char base[24];
    snprintf(base, sizeof(base), "g->b%u[i]", k);
    write_rebased(w, value, k, "f->%c%u[j]", base);
    WRITE(w, ";\n        f->b%u[j] = %s;\n    }\n", k, base);
}

static void write_take_joint_exp(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "    f->a%u[j] = ", k);
    write_name(w, value->elements, "add");
    WRITE(w, "(f->a%u[j], ", k);
    write_name(w, value->elements, "exp(");
    write_name(w, value->elements, "sub(");
    write_elements(w, value);
    WRITE(w, ", f->b%u[j])));\n", k);
}

static void write_take_joint_square(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "    {\n        const %s t = ", fold_type(value));
    write_elements(w, value);
    WRITE(w, ";\n        const %s from = ", fold_type(value));
    write_name(w, value->elements, "sub");
    WRITE(w, "(t, f->b%u[j]);\n        f->a%u[j] = ", k, k);
    write_name(w, value->elements, "fma");
    WRITE(w, "(from, from, f->a%u[j]);\n        f->c%u[j] += 1;\n        f->d%u[j] = ", k, k, k);
    write_name(w, value->elements, "add");
    WRITE(w, "(f->d%u[j], from);\n    }\n", k);
}

static void write_take_truth(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, value->reduction == KILN__REDUCE_ANY ? "    f->a%u[j] |= (" : "    f->a%u[j] &= (", k);
    kiln__real_emit_node(w->spec->op, &w->spec->catalog->ops, w->style, value->argument, KILN__DTYPE_UNSET, w->out);
    WRITE(w, ");\n");
}

static void write_take(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (value->joint) {
        (squares(value) ? write_take_joint_square : write_take_joint_exp)(w, value, k);
        return;
    }
    switch (value->reduction) {
    case KILN__REDUCE_PROD:
        write_fold(w, value, k, "mul", NULL);
        break;
    case KILN__REDUCE_MAX:
        write_fold(w, value, k, "max", NULL);
        break;
    case KILN__REDUCE_MIN:
        write_fold(w, value, k, "min", NULL);
        break;
    case KILN__REDUCE_ARGMAX:
    case KILN__REDUCE_ARGMIN:
        write_take_index(w, value, k);
        break;
    case KILN__REDUCE_ANY:
    case KILN__REDUCE_ALL:
        write_take_truth(w, value, k);
        break;
    case KILN__REDUCE_VAR:
    case KILN__REDUCE_STD:
    case KILN__REDUCE_NORM:
        write_take_square(w, value, k);
        break;
    case KILN__REDUCE_LOGSUMEXP:
        write_take_exp(w, value, k);
        break;
    default:
        write_fold(w, value, k, "add", NULL);
    }
}

static void write_join_joint(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (squares(value)) {
        WRITE(w, "    kiln_join_squares(f->a%u[j], f->b%u[j], f->c%u[j], f->d%u[j], ", k, k, k, k);
        WRITE(w, "g->a%u[i], g->b%u[i], g->c%u[i], g->d%u[i]);\n", k, k, k, k);
        return;
    }
    WRITE(w, "    {\n        const %s t = f->b%u[j] > g->b%u[i] ? f->b%u[j] : g->b%u[i];\n        f->a%u[j] = ",
          fold_type(value), k, k, k, k, k);
    write_name(w, value->elements, "add(");
    write_rebased(w, value, k, "f->%c%u[j]", "t");
    WRITE(w, ", ");
    write_rebased(w, value, k, "g->%c%u[i]", "t");
    WRITE(w, ");\n        f->b%u[j] = t;\n    }\n", k);
}

static void write_join(const writer *w, const kiln__row_value *value, uint32_t k)
{
    const char *above = value->reduction == KILN__REDUCE_ARGMAX ? "KILN_ABOVE" : "KILN_BELOW";
    if (value->joint) {
        write_join_joint(w, value, k);
        return;
    }
    switch (value->reduction) {
    case KILN__REDUCE_PROD:
        write_fold(w, value, k, "mul", "g->a%u[i]");
        break;
    case KILN__REDUCE_MAX:
        write_fold(w, value, k, "max", "g->a%u[i]");
        break;
    case KILN__REDUCE_MIN:
        write_fold(w, value, k, "min", "g->a%u[i]");
        break;
    case KILN__REDUCE_ARGMAX:
    case KILN__REDUCE_ARGMIN:
        WRITE(w, "    {\n        const int other = %s(g->a%u[i], f->a%u[j]) ||\n", above, k, k);
        WRITE(w, "                          (!%s(f->a%u[j], g->a%u[i]) && g->i%u[i] < f->i%u[j]);\n", above, k, k, k,
              k);
        WRITE(w, "        f->a%u[j] = other ? g->a%u[i] : f->a%u[j];\n", k, k, k);
        WRITE(w, "        f->i%u[j] = other ? g->i%u[i] : f->i%u[j];\n    }\n", k, k, k);
        break;
    case KILN__REDUCE_ANY:
        WRITE(w, "    f->a%u[j] |= g->a%u[i];\n", k, k);
        break;
    case KILN__REDUCE_ALL:
        WRITE(w, "    f->a%u[j] &= g->a%u[i];\n", k, k);
        break;
    default:
        write_fold(w, value, k, "add", "g->a%u[i]");
    }
    if (sums_distances(value)) {
        WRITE(w, "    f->d%u[j] = ", k);
        write_name(w, value->elements, "add");
        WRITE(w, "(f->d%u[j], g->d%u[i]);\n", k, k);
    }
}

/* The mean of a row from the distances of its elements from the mean so far, which has the rounding of a long sum. The
 * first of several values with that base does so. */
static void write_refined_base(const writer *w, const kiln__row_value *value, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        if (w->rows->values[i].base == value->base && squares(&w->rows->values[i]))
            return;
    WRITE(w, "    row->r%d = KILN_REFINED(%s, row->r%d, f->d%u[j], n);\n", value->base, fold_type(value), value->base,
          k);
}

/* The variance, from the sum of squares. */
static void write_variance(const writer *w, const kiln__row_value *value, uint32_t k)
{
    char correction[KILN__NUMBER_SIZE];
    kiln__number_format_hex(correction, value->correction);
    if (value->joint)
        WRITE(w, "kiln_squares(f->a%u[j], f->d%u[j], f->c%u[j])", k, k, k);
    else if (!sums_distances(value))
        WRITE(w, "f->a%u[j]", k);
    else
        WRITE(w, "KILN_SQUARES(%s, f->a%u[j], f->d%u[j], n)", fold_type(value), k, k);
    WRITE(w, " / KILN_FREEDOM(%s, n, %s)", fold_type(value), correction);
}

/* From the base of the folds to that of the row. */
static void write_finish_joint_exp(const writer *w, const kiln__row_value *value, uint32_t k)
{
    char base[16];
    snprintf(base, sizeof(base), "row->r%d", value->base);
    if (value->reduction == KILN__REDUCE_SUM) {
        WRITE(w, "n == 0 ? 0 : ");
        write_rebased(w, value, k, "f->%c%u[j]", base);
    } else {
        WRITE(w, "%s - %s == 0 ? ", base, base); /* which is finite */
        write_name(w, value->elements, "add");
        WRITE(w, "(%s, ", base);
        write_name(w, value->elements, "log(");
        write_rebased(w, value, k, "f->%c%u[j]", base);
        WRITE(w, ")) : %s", base);
    }
    WRITE(w, ";\n");
}

static void write_finish(const writer *w, const kiln__row_value *value, uint32_t k)
{
    if (sums_distances(value) && !value->joint)
        write_refined_base(w, value, k);
    WRITE(w, "    row->r%u = ", k);
    if (value->joint && !squares(value)) {
        write_finish_joint_exp(w, value, k);
        return;
    }
    switch (value->reduction) {
    case KILN__REDUCE_MEAN:
        WRITE(w, "f->a%u[j] / (%s)n", k, fold_type(value));
        break;
    case KILN__REDUCE_VAR:
        write_variance(w, value, k);
        break;
    case KILN__REDUCE_STD:
        write_name(w, value->elements, "sqrt(");
        write_variance(w, value, k);
        WRITE(w, ")");
        break;
    case KILN__REDUCE_NORM:
        write_name(w, value->elements, "sqrt");
        WRITE(w, "(f->a%u[j])", k);
        break;
    case KILN__REDUCE_LOGSUMEXP:
        write_name(w, value->elements, "add");
        WRITE(w, "(KILN_FINITE(row->r%d), ", value->base);
        write_name(w, value->elements, "log");
        WRITE(w, "(f->a%u[j]))", k);
        break;
    case KILN__REDUCE_ARGMAX:
    case KILN__REDUCE_ARGMIN:
        WRITE(w, "f->i%u[j]", k);
        break;
    default:
        WRITE(w, "f->a%u[j]", k);
    }
    WRITE(w, ";\n");
}

static bool is_picked(const writer *w, const kiln__row_value *value)
{
    return w->picks && value->place >= 0;
}

/* ", const kiln_row *row, float x, float y)" */
static void write_element_parameters(const writer *w, const char *last)
{
    WRITE(w, ", ");
    kiln__rows_append_parameters(w->spec, w->style->typing, w->out);
    WRITE(w, "%s)\n{\n", last);
}

/* A function of a stage: its begin, a line or more for each value, its end. */
static void write_function(const writer *w, uint32_t stage, const char *name, const char *parameters,
                           void (*write)(const writer *, const kiln__row_value *, uint32_t))
{
    const suffix end = suffix_of(stage);
    WRITE(w, "KILN_FN void KILN_OF_STAGE(kiln_%s, %s)(", name, end.text);
    WRITE(w, parameters, end.text, end.text);
    if (write == write_take || write == write_peek)
        write_element_parameters(w, ", long long position");
    else
        WRITE(w, ")\n{\n");
    for (uint32_t k = 0; k < w->rows->count; k++)
        if (w->rows->values[k].stage == stage && !(write == write_take && is_picked(w, &w->rows->values[k])))
            write(w, &w->rows->values[k], k);
    WRITE(w, "}\n");
}

/* The position of the only element of a sum, and how it is added. */
static void write_pick(const writer *w, const kiln__row_value *value, uint32_t k)
{
    WRITE(w, "KILN_FN long long kiln_place%u(const kiln_row *row", k);
    write_element_parameters(w, "");
    WRITE(w, "    return ");
    kiln__real_emit_node(w->spec->op, &w->spec->catalog->ops, w->style, (uint16_t)value->place,
                         (kiln__dtype)w->style->typing->own[value->place], w->out);
    WRITE(w, ";\n}\nKILN_FN void kiln_pick%u(kiln_folds%u *f, unsigned j, const kiln_row *row", k, value->stage);
    write_element_parameters(w, ", long long position");
    write_take(w, value, k);
    WRITE(w, "}\n");
}

static void write_picks(const writer *w, uint32_t stage)
{
    WRITE(w, "#define KILN_PICKS%u(M)", stage);
    for (uint32_t k = 0; k < w->rows->count; k++)
        if (w->rows->values[k].stage == stage && is_picked(w, &w->rows->values[k]))
            WRITE(w, " M(%u)", k);
    WRITE(w, "\n");
    for (uint32_t k = 0; k < w->rows->count; k++)
        if (w->rows->values[k].stage == stage && is_picked(w, &w->rows->values[k]))
            write_pick(w, &w->rows->values[k], k);
}

static void write_stage(const writer *w, uint32_t stage)
{
    write_members(w, stage);
    write_function(w, stage, "clear", "kiln_folds%s *f, unsigned j", write_clear);
    if (w->joint) {
        write_function(w, stage, "peek", "kiln_folds%s *f, unsigned j, const kiln_row *row", write_peek);
        write_function(w, stage, "settle", "kiln_folds%s *f, unsigned j, const kiln_folds%s *g, unsigned i",
                       write_settle);
    }
    write_function(w, stage, "take", "kiln_folds%s *f, unsigned j, const kiln_row *row", write_take);
    write_function(w, stage, "join", "kiln_folds%s *f, unsigned j, const kiln_folds%s *g, unsigned i", write_join);
    if (stage == KILN__STAGE_OF_SCANS)
        return;
    write_function(w, stage, "finish", "const kiln_folds%s *f, unsigned j, kiln_row *row, unsigned long long n",
                   write_finish);
    write_picks(w, stage);
}

void kiln__rows_append_parameters(const kiln__fields *spec, const kiln__typing *typing, kiln__text *out)
{
    for (uint32_t i = 0; i < spec->op->inputs; i++)
        kiln__text_printf(out, "%s%s %s", i == 0 ? "" : ", ",
                          typing->mixed ? kiln__typing_c_type(kiln__spec_input(spec, i)) : "kiln_real",
                          kiln__input_names[i]);
    for (uint32_t i = 0; i < spec->op->scalars; i++)
        kiln__text_printf(out, ", %s s%u", typing->mixed ? "double" : "kiln_real", i);
}

void kiln__rows_append(const kiln__rows *rows, const kiln__fields *spec, const kiln__typing *typing, bool picks,
                       kiln__text *out)
{
    const kiln__real_style style = { typing, spec->round == KILN__ROUND_EAGER, rows->places };
    const writer w = { rows, spec, &style, has_joint(rows), picks, out };
    WRITE(&w, "#define KILN_FOLD_STAGES(M)");
    for (uint32_t s = 0; s < rows->stages; s++)
        WRITE(&w, " M(%u)", s);
    WRITE(&w, "\n#define KILN_FOLD_BYTES %u", fold_bytes(rows));
    WRITE(&w, "\ntypedef struct kiln_row {\n");
    for (uint32_t k = 0; k < rows->count; k++)
        if (rows->values[k].stage != KILN__STAGE_OF_SCANS)
            WRITE(&w, "    %s r%u;\n", kiln__typing_c_type(rows->values[k].type), k);
    WRITE(&w, rows->stages > 0 ? "} kiln_row;\n" : "    char none;\n} kiln_row;\n");
    for (uint32_t s = 0; s < rows->stages; s++)
        write_stage(&w, s);
    if (spec->op->scans)
        write_stage(&w, KILN__STAGE_OF_SCANS);
}
