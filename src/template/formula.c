#include "template/formula.h"
#include "base/number.h"
#include "template/word.h"
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

typedef struct reader {
    const char *formula, *at;
    kiln__formula_lookup lookup;
    const void *data;
    int depth;
    int idle; /* above 0 in a branch that is not taken: names are checked, values are not */
    bool failed;
    char *problem;
    size_t size;
} reader;

typedef enum operation {
    OP_NONE,
    OP_OR,
    OP_AND,
    OP_EQ,
    OP_NE,
    OP_LE,
    OP_GE,
    OP_LT,
    OP_GT,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD
} operation;

/* Two-character operators come before their first characters. */
static const struct {
    char text[3];
    operation id;
    int precedence;
} operators[] = {
    { "||", OP_OR, 1 }, { "&&", OP_AND, 2 }, { "==", OP_EQ, 3 }, { "!=", OP_NE, 3 }, { "<=", OP_LE, 4 },
    { ">=", OP_GE, 4 }, { "<", OP_LT, 4 },   { ">", OP_GT, 4 },  { "+", OP_ADD, 5 }, { "-", OP_SUB, 5 },
    { "*", OP_MUL, 6 }, { "/", OP_DIV, 6 },  { "%", OP_MOD, 6 },
};

static int64_t read_choice(reader *r);

static int64_t fail(reader *r, const char *what, kiln__word culprit)
{
    if (!r->failed) {
        kiln__word formula = { r->formula, strlen(r->formula) };
        const char *mark = culprit.length > 0 ? "'" : "";
        snprintf(r->problem, r->size, "formula '%s': %s%s%s%s%s", kiln__word_quote(formula).text, what,
                 culprit.length > 0 ? " " : "", mark, kiln__word_quote(culprit).text, mark);
    }
    r->failed = true;
    return 0;
}

static int64_t fail_value(reader *r, const char *what)
{
    return r->idle > 0 ? 0 : fail(r, what, (kiln__word){ "", 0 });
}

static void skip_blanks(reader *r)
{
    while (kiln__word_is_blank(*r->at))
        r->at++;
}

static bool take(reader *r, char c)
{
    skip_blanks(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static void expect(reader *r, char c)
{
    if (r->failed || take(r, c))
        return;
    char what[24];
    snprintf(what, sizeof(what), *r->at == '\0' ? "'%c' is missing" : "expected '%c' at", c);
    fail(r, what, (kiln__word){ r->at, strlen(r->at) });
}

static int64_t read_number(reader *r)
{
    kiln__word digits = kiln__word_take(&r->at);
    uint64_t value = 0;
    if (!kiln__number_parse_uint(digits.text, digits.length, &value) || value > INT64_MAX)
        return fail(r, "not a whole number that fits:", digits);
    return (int64_t)value;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static int64_t greatest_divisor(reader *r, int64_t left, int64_t right)
{
    uint64_t a = magnitude(left), b = magnitude(right);
    while (b != 0) {
        uint64_t next = a % b;
        a = b;
        b = next;
    }
    return a > INT64_MAX ? fail_value(r, "overflow") : (int64_t)a;
}

static int64_t read_call(reader *r, kiln__word name)
{
    bool is_min = kiln__word_is(name, "min"), is_max = kiln__word_is(name, "max");
    if (!is_min && !is_max && !kiln__word_is(name, "gcd"))
        return fail(r, "min, max and gcd are the functions there are, not", name);
    expect(r, '(');
    int64_t left = read_choice(r);
    expect(r, ',');
    int64_t right = read_choice(r);
    expect(r, ')');
    if (r->failed)
        return 0;
    if (is_min)
        return left < right ? left : right;
    if (is_max)
        return left > right ? left : right;
    return greatest_divisor(r, left, right);
}

static int64_t read_name(reader *r)
{
    kiln__word name = kiln__word_take(&r->at);
    skip_blanks(r);
    if (*r->at == '(')
        return read_call(r, name);
    int64_t value = 0;
    if (!r->lookup(r->data, name.text, name.length, &value))
        return fail(r, "unknown name", name);
    return value;
}

static int64_t read_primary(reader *r)
{
    skip_blanks(r);
    if (kiln__word_is_digit(*r->at))
        return read_number(r);
    if (kiln__word_is_name_char(*r->at))
        return read_name(r);
    if (*r->at == '\0')
        return fail(r, "a value is missing at the end", (kiln__word){ "", 0 });
    if (!take(r, '('))
        return fail(r, "expected a value at", (kiln__word){ r->at, strlen(r->at) });
    int64_t value = read_choice(r);
    expect(r, ')');
    return value;
}

static int64_t read_unary(reader *r)
{
    skip_blanks(r);
    if ((*r->at != '-' && *r->at != '!') || r->failed)
        return r->failed ? 0 : read_primary(r);
    if (r->depth >= DEPTH_MAX)
        return fail(r, "nested too deeply", (kiln__word){ "", 0 });
    char sign = *r->at++;
    r->depth++;
    int64_t value = read_unary(r);
    r->depth--;
    if (sign == '!')
        return value == 0;
    return value == INT64_MIN ? fail_value(r, "overflow") : -value;
}

static int64_t divide(reader *r, operation id, int64_t left, int64_t right)
{
    if (right == 0)
        return fail_value(r, "division by zero");
    if (right == -1 && id == OP_MOD)
        return 0;
    if (right == -1 && left == INT64_MIN)
        return fail_value(r, "overflow");
    return id == OP_DIV ? left / right : left % right;
}

static int64_t calculate(reader *r, operation id, int64_t left, int64_t right)
{
    int64_t value = 0;
    bool overflow = false;
    switch (id) {
    case OP_OR:
        return left != 0 || right != 0;
    case OP_AND:
        return left != 0 && right != 0;
    case OP_EQ:
        return left == right;
    case OP_NE:
        return left != right;
    case OP_LE:
        return left <= right;
    case OP_GE:
        return left >= right;
    case OP_LT:
        return left < right;
    case OP_GT:
        return left > right;
    case OP_ADD:
        overflow = __builtin_add_overflow(left, right, &value);
        break;
    case OP_SUB:
        overflow = __builtin_sub_overflow(left, right, &value);
        break;
    case OP_MUL:
        overflow = __builtin_mul_overflow(left, right, &value);
        break;
    case OP_DIV:
    case OP_MOD:
        return divide(r, id, left, right);
    case OP_NONE:
        break;
    }
    return overflow ? fail_value(r, "overflow") : value;
}

static operation peek_operator(reader *r, int *precedence, size_t *width)
{
    skip_blanks(r);
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        const char *text = operators[i].text;
        if (r->at[0] != text[0] || (text[1] != '\0' && r->at[1] != text[1]))
            continue;
        *width = text[1] != '\0' ? 2 : 1;
        *precedence = operators[i].precedence;
        return operators[i].id;
    }
    return OP_NONE;
}

static int64_t read_binary(reader *r, int least)
{
    int64_t left = read_unary(r);
    while (!r->failed) {
        int precedence;
        size_t width;
        operation id = peek_operator(r, &precedence, &width);
        if (id == OP_NONE || precedence < least)
            break;
        r->at += width;
        bool decided = (id == OP_OR && left != 0) || (id == OP_AND && left == 0);
        r->idle += decided;
        int64_t right = read_binary(r, precedence + 1);
        r->idle -= decided;
        left = calculate(r, id, left, right);
    }
    return left;
}

static int64_t read_choice(reader *r)
{
    if (r->failed)
        return 0;
    if (r->depth >= DEPTH_MAX)
        return fail(r, "nested too deeply", (kiln__word){ "", 0 });
    r->depth++;
    int64_t value = read_binary(r, 1);
    if (!r->failed && take(r, '?')) {
        bool condition = value != 0;
        r->idle += !condition;
        int64_t yes = read_choice(r);
        r->idle -= !condition;
        expect(r, ':');
        r->idle += condition;
        int64_t no = read_choice(r);
        r->idle -= condition;
        value = condition ? yes : no;
    }
    r->depth--;
    return value;
}

static bool read_whole(reader *r, int64_t *out)
{
    int64_t value = read_choice(r);
    skip_blanks(r);
    if (!r->failed && *r->at != '\0')
        fail(r, "expected an operator at", (kiln__word){ r->at, strlen(r->at) });
    if (!r->failed)
        *out = value;
    return !r->failed;
}

bool kiln__formula_eval(const char *formula, kiln__formula_lookup lookup, const void *data, int64_t *out, char *problem,
                        size_t size)
{
    reader r = { formula, formula, lookup, data, 0, 0, false, problem, size };
    return read_whole(&r, out);
}

bool kiln__formula_check(const char *formula, kiln__formula_lookup lookup, const void *data, char *problem, size_t size)
{
    reader r = { formula, formula, lookup, data, 0, 1, false, problem, size };
    int64_t value;
    return read_whole(&r, &value);
}

void kiln__formula_names(const char *formula, void (*fn)(void *data, const char *name, size_t length), void *data)
{
    reader r = { formula, formula, NULL, NULL, 0, 0, false, NULL, 0 };
    while (*r.at != '\0') {
        kiln__word word = kiln__word_take(&r.at);
        skip_blanks(&r);
        if (word.length > 0 && !kiln__word_is_digit(word.text[0]) && *r.at != '(')
            fn(data, word.text, word.length);
        else if (word.length == 0 && *r.at != '\0' && !kiln__word_is_name_char(*r.at))
            r.at++;
    }
}
