/* The names that nvcc includes before each text and NVRTC lacks. Only the lines for the names that a text needs come
 * before it, so a text may declare any of these names itself. The lines are those of Kiln's standard headers. */
#include "source/source.h"
#include "source/tokens.h"
#include "spec/embedded.h"

#include <stdio.h>
#include <string.h>

/* The names that a text most likely uses without an include. */
static const struct {
    bool in_std;
    const char *name;
} common[] = {
    { false, "INFINITY" }, { false, "NAN" },     { false, "int8_t" },   { false, "int16_t" },  { false, "int32_t" },
    { false, "int64_t" },  { false, "uint8_t" }, { false, "uint16_t" }, { false, "uint32_t" }, { false, "uint64_t" },
    { true, "min" },       { true, "max" },      { true, "size_t" },
};
enum { COMMON = sizeof(common) / sizeof(common[0]) };

/* Where a header declares a name: as the text between `before` and `after`. In namespace std the whole header is
 * included, else the line is copied. */
static const struct {
    bool in_std;
    const char *header, *before, *after;
} places[] = {
    { false, "stdint.h", " ", ";\n" },         { false, "stdint.h", "#define ", " " },
    { false, "math.h", "#define ", " " },      { false, "limits.h", "#define ", " " },
    { false, "float.h", "#define ", " " },     { true, "cstddef", "using ::", ";" },
    { true, "cstdint", "using ::", ";" },      { true, "cstdlib", "using ::", ";" },
    { true, "cstring", "using ::", ";" },      { true, "cmath", "using ::", ";" },
    { true, "algorithm", " &", "(const T &" }, { true, "algorithm", "void ", "(T &" },
};

static const char *header_text(const char *name)
{
    for (size_t i = 0; i < kiln__standard_count; i++)
        if (strcmp(kiln__standard_files[i].name, name) == 0)
            return kiln__standard_files[i].text;
    return "";
}

/* The line of a header around `at`, or the inclusion of the header: see places. */
static void make_line(kiln__text *out, size_t place, const char *text, const char *at)
{
    while (at > text && at[-1] != '\n')
        at--;
    if (places[place].in_std)
        kiln__text_printf(out, "#include <%s>\n", places[place].header);
    else
        kiln__text_printf(out, "%.*s\n", (int)strcspn(at, "\n"), at);
}

/* True if the prelude has grown by the line for a name: a header has the name, and the prelude did not. */
static bool add_name(kiln__text *prelude, bool in_std, kiln__word name)
{
    enum { ROOM = 80 };
    kiln__text line = { 0 };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && line.length == 0; i++) {
        char wanted[ROOM];
        const char *text = header_text(places[i].header);
        int length = snprintf(wanted, ROOM, "%s%.*s%s", places[i].before, (int)name.length, name.text, places[i].after);
        const char *at = places[i].in_std == in_std && length < ROOM ? strstr(text, wanted) : NULL;
        if (at != NULL)
            make_line(&line, i, text, at);
    }
    bool grows = line.length > 0 && strstr(kiln__text_string(prelude), line.data) == NULL;
    if (grows)
        kiln__text_append(prelude, line.data);
    prelude->failed = prelude->failed || line.failed;
    kiln__text_fini(&line);
    return grows && !prelude->failed;
}

/* ---- From a text */

/* The tokens before the one that is looked at, the nearest first. */
enum { HISTORY = 3 };

/* Number of the common name that a token stands for, COMMON if none. */
static size_t find_common(kiln__word word, const kiln__word before[HISTORY])
{
    bool in_std = kiln__word_is(before[0], ":") && kiln__word_is(before[1], ":") && kiln__word_is(before[2], "std");
    size_t i = 0;
    while (i < COMMON && (common[i].in_std != in_std || !kiln__word_is(word, common[i].name)))
        i++;
    return i;
}

/* Whether a token, a name that is not in std, is declared or asked for rather than used: `define`, `ifdef` or `defined`
 * stands before it, an '=' or, for a type, the end of a typedef behind it. */
static bool is_declared(const kiln__tokens *tokens, kiln__word word, const kiln__word before[HISTORY])
{
    static const char *const words[] = { "define", "undef", "ifdef", "ifndef", "defined", "struct", "class", "enum" };
    kiln__tokens ahead = *tokens;
    kiln__word after = kiln__tokens_next(&ahead);
    bool type = word.text[word.length - 1] == 't';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (kiln__word_is(before[0], words[i]))
            return true;
    if (kiln__word_is(before[0], "(") && kiln__word_is(before[1], "defined"))
        return true;
    return (kiln__word_is(after, "=") && *ahead.at != '=') || (type && kiln__word_is(after, ";"));
}

/* Folders of the toolkit's headers. */
static const char *const folders[] = { "cub/", "cuda/", "thrust/", "cooperative_groups/", "nv/" };

/* Beginnings of the names of the toolkit's headers that lie in no folder. */
static const char *const beginnings[] = {
    "cuda_", "cooperative_groups", "curand", "math_constants", "math_functions", "mma.h>", "vector_", "device_"
};

/* Whether a name between < and > is that of a header of the toolkit or of Kiln. A header of the user may declare any
 * name. */
static bool is_known_header(kiln__word name)
{
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strncmp(name.text, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (strncmp(name.text, folders[i], strlen(folders[i])) == 0)
            return true;
    for (size_t i = 0; i < kiln__standard_count; i++)
        if (kiln__word_is(name, kiln__standard_files[i].name))
            return true;
    return false;
}

/* An #include of a header that may declare any name. The toolkit's headers and Kiln's go with the lines for a name, and
 * CUB's cost a second, so that a second run to learn the names from would cost one too. */
static bool includes_others(const kiln__tokens *tokens)
{
    kiln__tokens ahead = *tokens;
    kiln__tokens_skip_space(&ahead);
    if (*ahead.at != '<')
        return true;
    kiln__word name = { ahead.at + 1, strcspn(ahead.at + 1, ">\n") };
    return name.text[name.length] != '>' || !is_known_header(name);
}

void kiln__prelude_foresee(kiln__text *prelude, const char *text)
{
    enum { NEVER, USED, DECLARED } seen[COMMON + 1] = { NEVER };
    kiln__tokens tokens = { .at = text, .at_line = true, .directives = true };
    kiln__word before[HISTORY] = { { "", 0 }, { "", 0 }, { "", 0 } };
    for (kiln__word word = kiln__tokens_next(&tokens); word.length > 0; word = kiln__tokens_next(&tokens)) {
        size_t name = find_common(word, before);
        bool hash = kiln__word_is(before[0], "#");
        if (hash && kiln__word_is(word, "include") && includes_others(&tokens))
            return;
        if (kiln__word_is(word, "std") && kiln__word_is(before[0], "namespace") && !kiln__word_is(before[1], "using"))
            return;
        if (name < COMMON && seen[name] != DECLARED)
            seen[name] = !common[name].in_std && is_declared(&tokens, word, before) ? DECLARED : USED;
        memmove(before + 1, before, (HISTORY - 1) * sizeof(before[0]));
        before[0] = word;
    }
    for (size_t i = 0; i < COMMON; i++)
        if (seen[i] == USED)
            add_name(prelude, common[i].in_std, kiln__word_of(common[i].name));
}

/* ---- From an error */

bool kiln__prelude_learn(kiln__text *prelude, const char *log)
{
    static const struct {
        bool in_std;
        const char *before;
    } errors[] = { { false, "error: identifier \"" },
                   { false, "error: the global scope has no \"" },
                   { true, "error: namespace \"std\" has no member \"" } };
    bool grown = false;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        for (const char *at = log; (at = strstr(at, errors[i].before)) != NULL;) {
            at += strlen(errors[i].before);
            grown |= add_name(prelude, errors[i].in_std, (kiln__word){ at, strcspn(at, "\"\n") });
        }
    return grown;
}
