/* Guesses which word a misspelt one was meant to be. */
#include "cli/nearest.h"

#include <string.h>

enum { LONGEST = 64 };

/* The number of single-letter insertions, removals and changes that make `a` of `b`. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    size_t width = strlen(b);
    if (width > LONGEST)
        width = LONGEST;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t step = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < step ? change : step;
        }
    }
    return row[width];
}

const char *nearest_word(const char *word, const void *rows, size_t count, size_t stride)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2; /* more than a third of the letters is no slip */
    for (size_t i = 0; i < count; i++) {
        const char *candidate = *(const char *const *)((const char *)rows + i * stride);
        size_t distance = edit_distance(word, candidate);
        if (strncmp(word, candidate, strlen(word)) == 0)
            distance = 0;
        if (distance < best_distance && distance < strlen(candidate)) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}
