#include "source/paste.h"

#include <string.h>

enum { TELLING = 3 }; /* so many bytes at its beginning make a word one that nothing else begins with */

/* NVRTC 13.0 knows no __has_embed and no #embed; a later one may. */
const char *const kiln__asking[KILN__ASKING] = { "__has_include", "__has_include_next", "__has_embed" };

/* In the compiler's alphabet, not in that of the host's locale. */
size_t kiln__asking_word(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

bool kiln__asking_is(const char *word, size_t length)
{
    for (int i = 0; i < KILN__ASKING; i++)
        if (strlen(kiln__asking[i]) == length && memcmp(word, kiln__asking[i], length) == 0)
            return true;
    return false;
}

/* ---- Collecting */

/* One that asks stands where it can be judged, and is not pasted to anything. */
static void add_word(kiln__pieces *self, const char *word, size_t length)
{
    self->pasting = self->pasting || (length > 4 && memcmp(word, "_NV_", 4) == 0);
    if (kiln__asking_is(word, length))
        return;
    for (int i = 0; i < KILN__ASKING; i++)
        for (size_t from = 0, whole = strlen(kiln__asking[i]); from + length <= whole; from++)
            if (memcmp(kiln__asking[i] + from, word, length) == 0)
                self->lengths[i][from] |= 1u << length;
}

/* NULL: it has no end on its line. */
static const char *skip_string(const char *at)
{
    at++;
    while (*at != '\0' && *at != '"' && *at != '\n')
        at += at[0] == '\\' && at[1] != '\0' && at[1] != '\n' ? 2 : 1;
    return *at == '"' ? at + 1 : NULL;
}

/* Past what holds no words, if there is something like that. NULL: where it ends depends on the compiler. */
static const char *skip_silent(const char *at)
{
    if (strncmp(at, "//", 2) == 0)
        return at + strcspn(at, "\n");
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        return end != NULL ? end + 2 : at + strlen(at);
    }
    return *at == '"' ? skip_string(at) : at;
}

/* With `everywhere` in comments and strings, too. False without it: there are quotes for which it takes a compiler to tell where
 * comments and strings are. */
static bool collect(kiln__pieces *self, const char *text, bool everywhere)
{
    for (const char *at = text; *at != '\0';) {
        const char *past = everywhere ? at : skip_silent(at);
        if (past == NULL)
            return false;
        size_t length = kiln__asking_word(past);
        if (!everywhere && past == at && (*at == '\'' || (length > 0 && at[length - 1] == 'R' && at[length] == '"')))
            return false;
        if (past != at) {
            at = past;
            continue;
        }
        if (length > 0)
            add_word(self, at, length);
        self->pasting = self->pasting || strncmp(at, "##", 2) == 0 || strncmp(at, "%:%:", 4) == 0;
        at += length > 0 ? length : 1;
    }
    return true;
}

void kiln__pieces_add(kiln__pieces *pieces, const char *text)
{
    if (!collect(pieces, text, false))
        collect(pieces, text, true);
}

/* ---- Making */

/* Fills from[n] with where the last piece begins of those that make the first n bytes of a word; 0 at n = whole if none do. */
static size_t put_together(const uint32_t lengths[KILN__ASKING_LENGTH], size_t whole, size_t *from)
{
    bool reached[KILN__ASKING_LENGTH + 1] = { true };
    from[whole] = 0;
    for (size_t at = 0; at < whole; at++)
        for (size_t length = 1; reached[at] && at + length <= whole; length++)
            if ((lengths[at] >> length & 1) != 0 && !reached[at + length]) {
                reached[at + length] = true;
                from[at + length] = at;
            }
    return from[whole];
}

/* A beginning that only such a word has, 0 if there is none: what follows may come from elsewhere. */
static size_t beginning(const char *word, const uint32_t lengths[KILN__ASKING_LENGTH])
{
    for (size_t length = TELLING; length < strlen(word); length++)
        if ((lengths[0] >> length & 1) != 0)
            return length;
    return 0;
}

static void tell_pieces(const char *word, const size_t *from, size_t whole, kiln__text *out)
{
    if (from[whole] > 0)
        tell_pieces(word, from, from[whole], out);
    kiln__text_printf(out, "%s'%.*s'", from[whole] > 0 ? " and " : "", (int)(whole - from[whole]), word + from[whole]);
}

const char *kiln__pieces_find(const kiln__pieces *pieces, kiln__text *out)
{
    for (int i = 0; pieces->pasting && i < KILN__ASKING; i++) {
        size_t from[KILN__ASKING_LENGTH + 1] = { 0 };
        size_t begun = beginning(kiln__asking[i], pieces->lengths[i]), whole = strlen(kiln__asking[i]);
        if (begun == 0 && put_together(pieces->lengths[i], whole, from) == 0)
            continue;
        tell_pieces(kiln__asking[i], from, begun > 0 ? begun : whole, out);
        return kiln__asking[i];
    }
    return NULL;
}
