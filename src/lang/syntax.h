/* The syntax of all expressions of Kiln: one lexer, one parser, one tree.
 *
 *     choice   condition ? yes : no              nests to the right
 *     binary   || && == != < <= > >= + - * / %   C's precedence, nests to the left
 *     unary    - + !
 *     primary  number, name, ?, ?name, name(argument, ...), (expression)
 *     argument expression, name = expression, name =
 *
 * A tree has no meaning yet: lang/formula.h reads one as integers, lang/real.h as real numbers. Each refuses the nodes
 * that mean nothing to it. Pure. */
#ifndef KILN_LANG_SYNTAX_H
#define KILN_LANG_SYNTAX_H

#include "lang/word.h"
#include <kiln/kiln.h>

enum { KILN__NODES_FEW = 40 };

typedef enum kiln__operator {
    KILN__OPERATOR_NONE,
    KILN__OPERATOR_OR,
    KILN__OPERATOR_AND,
    KILN__OPERATOR_EQ,
    KILN__OPERATOR_NE,
    KILN__OPERATOR_LE,
    KILN__OPERATOR_GE,
    KILN__OPERATOR_LT,
    KILN__OPERATOR_GT,
    KILN__OPERATOR_ADD,
    KILN__OPERATOR_SUB,
    KILN__OPERATOR_MUL,
    KILN__OPERATOR_DIV,
    KILN__OPERATOR_MOD
} kiln__operator;

/* "&&", and how tightly an operator binds, as in C: from 1 for || to 6 for *. */
const char *kiln__operator_sign(kiln__operator op);
int kiln__operator_precedence(kiln__operator op);

typedef enum kiln__node_kind {
    KILN__NODE_NUMBER, /* the text has all characters that may follow a digit: "16", "0x1p-3", also "16k" */
    KILN__NODE_NAME,
    KILN__NODE_CALL,  /* children are the arguments */
    KILN__NODE_NAMED, /* an argument: the text is its name, the child its value; no child: nothing follows the '=' */
    KILN__NODE_OPEN,  /* '?' in the place of a value, with the name behind it, "?lr" */
    KILN__NODE_NEGATE,
    KILN__NODE_NOT,
    KILN__NODE_BINARY,
    KILN__NODE_CHOICE /* condition, yes, no */
} kiln__node_kind;

typedef struct kiln__node {
    kiln__node_kind kind;
    kiln__operator sign; /* of a binary node */
    kiln__word text;     /* the token: number, name or operator; points into the text that was read */
    uint32_t count;      /* children */
    uint32_t first;      /* the first child; UINT32_MAX: there is none */
    uint32_t next;       /* the next child of the same parent; UINT32_MAX: there is none */
} kiln__node;

/* Nodes stand in post-order, each right behind its last child: one walk from the first to the last calculates a tree.
 * The root is the last. A text of at most KILN__NODES_FEW characters takes no memory besides. Not to be copied. */
typedef struct kiln__syntax {
    kiln__node *nodes;
    uint32_t count;
    kiln__node few[KILN__NODES_FEW];
} kiln__syntax;

typedef enum kiln__syntax_fault_kind {
    KILN__FAULT_OTHER,
    KILN__FAULT_VALUE, /* a value is missing */
    KILN__FAULT_CLOSE, /* a ')' is missing, or a ',' before another argument */
    KILN__FAULT_DEPTH
} kiln__syntax_fault_kind;

/* The first fault of a text. `text` is a whole message; the rest lets a caller build another one. */
typedef struct kiln__syntax_fault {
    kiln__syntax_fault_kind kind;
    const char *at;
    kiln__word call; /* the name of the innermost call that is open there; empty: there is none */
    char text[160];  /* "expected a value at '* 2'" */
} kiln__syntax_fault;

/* Reads one expression from *at, at most to `end`, and leaves *at behind it, where the text may go on. `depth`
 * bounds the nesting of parentheses, calls, choices and signs, and so the stack that this takes. The caller frees
 * the tree in any case. KILN_ESPEC with the fault, KILN_ENOMEM. */
kiln_status kiln__syntax_read(kiln__syntax *out, const char **at, const char *end, uint32_t depth,
                              kiln__syntax_fault *fault);
void kiln__syntax_free(kiln__syntax *syntax);

/* Fills a fault at a place, with a culprit in quotes behind it where its text is not NULL. KILN_ESPEC. */
kiln_status kiln__syntax_fail(kiln__syntax_fault *fault, const char *at, const char *what, kiln__word culprit);

#endif
