/* The lexer and the parser of all expressions. */
#include "lang/syntax.h"

#include "base/alloc.h"
#include <stdio.h>
#include <string.h>

#define NO_WORD ((kiln__word){ NULL, 0 })

#define NO_NODE UINT32_MAX

typedef struct parser {
    const char *at, *end;
    kiln__syntax *out;
    uint32_t depth, most;
    kiln__word call;    /* the name of the innermost open one */
    kiln_status status; /* once it is not KILN_OK, every function returns at once */
    kiln__syntax_fault *fault;
} parser;

static const struct {
    char text[3];
    uint8_t precedence;
} operators[] = {
    [KILN__OPERATOR_OR] = { "||", 1 }, [KILN__OPERATOR_AND] = { "&&", 2 }, [KILN__OPERATOR_EQ] = { "==", 3 },
    [KILN__OPERATOR_NE] = { "!=", 3 }, [KILN__OPERATOR_LE] = { "<=", 4 },  [KILN__OPERATOR_GE] = { ">=", 4 },
    [KILN__OPERATOR_LT] = { "<", 4 },  [KILN__OPERATOR_GT] = { ">", 4 },   [KILN__OPERATOR_ADD] = { "+", 5 },
    [KILN__OPERATOR_SUB] = { "-", 5 }, [KILN__OPERATOR_MUL] = { "*", 6 },  [KILN__OPERATOR_DIV] = { "/", 6 },
    [KILN__OPERATOR_MOD] = { "%", 6 },
};

const char *kiln__operator_sign(kiln__operator op)
{
    return operators[op].text;
}

int kiln__operator_precedence(kiln__operator op)
{
    return operators[op].precedence;
}

static uint32_t read_choice(parser *p);

kiln_status kiln__syntax_fail(kiln__syntax_fault *fault, const char *at, const char *what, kiln__word culprit)
{
    fault->kind = KILN__FAULT_OTHER;
    fault->at = at;
    if (culprit.text == NULL)
        snprintf(fault->text, sizeof(fault->text), "%s", what);
    else
        snprintf(fault->text, sizeof(fault->text), "%s '%s'", what, kiln__word_quote(culprit).text);
    return KILN_ESPEC;
}

static void fail(parser *p, kiln__syntax_fault_kind kind, const char *what, kiln__word culprit)
{
    if (p->status != KILN_OK)
        return;
    p->status = kiln__syntax_fail(p->fault, p->at, what, culprit);
    p->fault->kind = kind;
    p->fault->call = p->call;
}

/* ---- The lexer */

static char peek_char(const parser *p, size_t ahead)
{
    return (size_t)(p->end - p->at) > ahead ? p->at[ahead] : '\0';
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end && kiln__word_is_blank(*p->at))
        p->at++;
}

static kiln__word rest_of(const parser *p)
{
    return (kiln__word){ p->at, (size_t)(p->end - p->at) };
}

static bool take_char(parser *p, char c)
{
    skip_blanks(p);
    if (p->status != KILN_OK || peek_char(p, 0) != c)
        return false;
    p->at++;
    return true;
}

static void expect_char(parser *p, char c)
{
    char what[24];
    if (p->status != KILN_OK || take_char(p, c))
        return;
    snprintf(what, sizeof(what), p->at == p->end ? "'%c' is missing" : "expected '%c' at", c);
    fail(p, c == ')' ? KILN__FAULT_CLOSE : KILN__FAULT_OTHER, what, p->at == p->end ? NO_WORD : rest_of(p));
}

static kiln__word take_name(parser *p)
{
    kiln__word name = { p->at, 0 };
    while (p->at < p->end && kiln__word_is_name_char(*p->at))
        p->at++;
    name.length = (size_t)(p->at - name.text);
    return name;
}

/* All characters up to a blank or an operator; behind the letter of an exponent, a sign belongs to the number. */
static kiln__word take_number(parser *p)
{
    const char *start = p->at;
    bool hex = peek_char(p, 0) == '0' && (peek_char(p, 1) | 0x20) == 'x';
    char exponent = hex ? 'p' : 'e';
    while (kiln__word_is_name_char(peek_char(p, 0)) || peek_char(p, 0) == '.' ||
           ((peek_char(p, 0) == '+' || peek_char(p, 0) == '-') && p->at > start && (p->at[-1] | 0x20) == exponent))
        p->at++;
    return (kiln__word){ start, (size_t)(p->at - start) };
}

/* Longer operators come first in the table. */
static kiln__operator peek_operator(parser *p)
{
    skip_blanks(p);
    char first = peek_char(p, 0), second = peek_char(p, 1);
    for (int i = KILN__OPERATOR_OR; i <= KILN__OPERATOR_MOD; i++)
        if (first == operators[i].text[0] && (operators[i].text[1] == '\0' || second == operators[i].text[1]))
            return (kiln__operator)i;
    return KILN__OPERATOR_NONE;
}

/* ---- The tree */

static uint32_t add_node(parser *p, kiln__node node)
{
    if (p->status != KILN_OK)
        return NO_NODE;
    node.next = NO_NODE;
    p->out->nodes[p->out->count] = node;
    return p->out->count++;
}

static uint32_t add_leaf(parser *p, kiln__node_kind kind, kiln__word text)
{
    return add_node(p, (kiln__node){ .kind = kind, .text = text, .first = NO_NODE });
}

/* Makes `child` the next one behind `last`; returns it. */
static uint32_t link_child(parser *p, uint32_t last, uint32_t child)
{
    if (p->status == KILN_OK && last != NO_NODE)
        p->out->nodes[last].next = child;
    return child;
}

static bool enter_level(parser *p)
{
    char what[40];
    if (p->status == KILN_OK && p->depth == p->most) {
        snprintf(what, sizeof(what), "nested deeper than %u", p->most);
        fail(p, KILN__FAULT_DEPTH, what, NO_WORD);
    }
    p->depth += p->status == KILN_OK;
    return p->status == KILN_OK;
}

/* ---- The parser: each function returns the node that it has read */

/* "name =", but not "name == other": the name, or nothing, and then the parser stays where it was. */
static kiln__word take_argument_name(parser *p)
{
    const char *start = p->at;
    kiln__word name = take_name(p);
    skip_blanks(p);
    if (name.length > 0 && !kiln__word_is_digit(name.text[0]) && peek_char(p, 0) == '=' && peek_char(p, 1) != '=') {
        p->at++;
        return name;
    }
    p->at = start;
    return NO_WORD;
}

static uint32_t read_argument(parser *p)
{
    skip_blanks(p);
    kiln__node node = { .kind = KILN__NODE_NAMED, .text = take_argument_name(p), .first = NO_NODE };
    if (node.text.length == 0)
        return read_choice(p);
    skip_blanks(p);
    if (peek_char(p, 0) != ',' && peek_char(p, 0) != ')') {
        node.first = read_choice(p);
        node.count = 1;
    }
    return add_node(p, node);
}

static uint32_t read_call(parser *p, kiln__word name)
{
    kiln__node node = { .kind = KILN__NODE_CALL, .text = name, .first = NO_NODE };
    kiln__word outer = p->call;
    uint32_t last = NO_NODE;
    p->call = name;
    if (!take_char(p, ')')) {
        do {
            last = link_child(p, last, read_argument(p));
            node.first = node.count++ == 0 ? last : node.first;
        } while (take_char(p, ','));
        expect_char(p, ')');
    }
    p->call = outer;
    return add_node(p, node);
}

/* "?" or "?lr". A name behind a blank would be a second value without an operator. */
static kiln__word take_scalar(parser *p)
{
    char what[160];
    kiln__word mark = { p->at++, 1 };
    mark.length += take_name(p).length;
    const char *behind = p->at;
    skip_blanks(p);
    bool letter = kiln__word_is_name_char(peek_char(p, 0)) && !kiln__word_is_digit(peek_char(p, 0));
    if (mark.length == 1 && p->at > behind && letter) {
        snprintf(what, sizeof(what), "a blank separates '?' from a name: write ?%s",
                 kiln__word_quote(take_name(p)).text);
        p->at = mark.text;
        fail(p, KILN__FAULT_OTHER, what, NO_WORD);
    }
    return mark;
}

static uint32_t read_primary(parser *p)
{
    skip_blanks(p);
    char first = peek_char(p, 0);
    if (kiln__word_is_digit(first) || (first == '.' && kiln__word_is_digit(peek_char(p, 1))))
        return add_leaf(p, KILN__NODE_NUMBER, take_number(p));
    if (first == '?')
        return add_leaf(p, KILN__NODE_OPEN, take_scalar(p));
    if (kiln__word_is_name_char(first)) {
        kiln__word name = take_name(p);
        return take_char(p, '(') ? read_call(p, name) : add_leaf(p, KILN__NODE_NAME, name);
    }
    if (p->at == p->end)
        fail(p, KILN__FAULT_VALUE, "a value is missing at the end", NO_WORD);
    if (!take_char(p, '('))
        fail(p, KILN__FAULT_VALUE, "expected a value at", rest_of(p));
    uint32_t value = read_choice(p);
    expect_char(p, ')');
    return value;
}

static uint32_t read_unary(parser *p)
{
    skip_blanks(p);
    kiln__word sign = { p->at, 1 };
    char c = peek_char(p, 0);
    if (c != '-' && c != '+' && (c != '!' || peek_char(p, 1) == '='))
        return read_primary(p);
    if (!enter_level(p))
        return NO_NODE;
    p->at++;
    uint32_t value = read_unary(p);
    p->depth--;
    if (c == '+')
        return value;
    return add_node(
        p, (kiln__node){
               .kind = c == '-' ? KILN__NODE_NEGATE : KILN__NODE_NOT, .text = sign, .count = 1, .first = value });
}

static uint32_t read_binary(parser *p, int least)
{
    uint32_t left = read_unary(p);
    while (p->status == KILN_OK) {
        kiln__operator id = peek_operator(p);
        if (id == KILN__OPERATOR_NONE || operators[id].precedence < least)
            break;
        kiln__node node = { .kind = KILN__NODE_BINARY, .sign = id, .count = 2, .first = left };
        node.text = (kiln__word){ p->at, strlen(operators[id].text) };
        if (id == KILN__OPERATOR_MUL && peek_char(p, 1) == '*')
            fail(p, KILN__FAULT_OTHER, "there is no power **: write x * x", NO_WORD);
        p->at += node.text.length;
        link_child(p, left, read_binary(p, operators[id].precedence + 1));
        left = add_node(p, node);
    }
    return left;
}

static uint32_t read_choice(parser *p)
{
    if (p->status != KILN_OK || !enter_level(p))
        return NO_NODE;
    uint32_t value = read_binary(p, 1);
    kiln__word mark = { p->at, 1 };
    if (take_char(p, '?')) {
        kiln__node node = { .kind = KILN__NODE_CHOICE, .text = mark, .count = 3, .first = value };
        uint32_t yes = link_child(p, value, read_choice(p));
        expect_char(p, ':');
        link_child(p, yes, read_choice(p));
        value = add_node(p, node);
    }
    p->depth--;
    return value;
}

kiln_status kiln__syntax_read(kiln__syntax *out, const char **at, const char *end, uint32_t depth,
                              kiln__syntax_fault *fault)
{
    parser p = { .at = *at, .end = end, .most = depth, .out = out, .fault = fault };
    size_t room = (size_t)(end - *at); /* a node takes one character at least */
    out->count = 0;
    out->nodes = room <= KILN__NODES_FEW ? out->few : kiln__alloc(room * sizeof(*out->nodes));
    if (out->nodes == NULL)
        return KILN_ENOMEM;
    *fault = (kiln__syntax_fault){ .at = *at };
    read_choice(&p);
    skip_blanks(&p);
    *at = p.at;
    return p.status;
}

void kiln__syntax_free(kiln__syntax *syntax)
{
    if (syntax->nodes != syntax->few)
        kiln__free(syntax->nodes);
    syntax->nodes = NULL;
    syntax->count = 0;
}
