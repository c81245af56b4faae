/* Tokens of CUDA text. */
#include "source/tokens.h"

#include <ctype.h>
#include <string.h>

static const char *skip_line(const char *at)
{
    while (*at != '\0' && *at != '\n')
        at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
    return at;
}

static const char *skip_comment(const char *at)
{
    if (at[1] == '/')
        return skip_line(at);
    const char *end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    while (*at != '\0' && *at != quote && *at != '\n')
        at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
    return *at == quote ? at + 1 : at;
}

/* R"x(...)x", from its quote on. */
static const char *skip_raw(const char *at)
{
    char end[20];
    size_t length = strcspn(at + 1, "(\n");
    if (length > 16 || at[1 + length] != '(')
        return skip_quoted(at);
    end[0] = ')';
    memcpy(end + 1, at + 1, length);
    memcpy(end + 1 + length, "\"", 2);
    const char *found = strstr(at + length, end);
    return found != NULL ? found + strlen(end) : at + strlen(at);
}

void kiln__tokens_skip_space(kiln__tokens *tokens)
{
    for (;;) {
        if (*tokens->at == '\n')
            tokens->at_line = true;
        if (isspace((unsigned char)*tokens->at))
            tokens->at++;
        else if (tokens->at[0] == '\\' && tokens->at[1] == '\n')
            tokens->at += 2;
        else if (tokens->at[0] == '/' && (tokens->at[1] == '/' || tokens->at[1] == '*'))
            tokens->at = skip_comment(tokens->at);
        else if (*tokens->at == '#' && tokens->at_line && !tokens->directives)
            tokens->at = skip_line(tokens->at);
        else
            return;
    }
}

kiln__word kiln__tokens_next(kiln__tokens *tokens)
{
    for (;;) {
        kiln__tokens_skip_space(tokens);
        kiln__word out = { tokens->at, 0 };
        tokens->at_line = false;
        while (kiln__word_is_name_char(tokens->at[out.length]) ||
               (out.length > 0 && tokens->at[out.length] == '\'' && isdigit((unsigned char)out.text[0])))
            out.length++;
        tokens->at += out.length;
        bool quoted = *tokens->at == '"' || (*tokens->at == '\'' && out.length == 0);
        if (!quoted && out.length == 0 && *tokens->at != '\0') {
            tokens->at++;
            out.length = 1;
        }
        if (!quoted)
            return out;
        bool raw = out.length > 0 && out.text[out.length - 1] == 'R';
        tokens->at = raw ? skip_raw(tokens->at) : skip_quoted(tokens->at);
    }
}
