/* What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput: preset fuzz links it with libFuzzer,
 * every other build with replay.c, which runs its corpus as a test. */
#ifndef KILN_TESTS_FUZZ_FUZZ_H
#define KILN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A property that must hold for every input; a finding if it does not. */
#define FUZZ_REQUIRE(condition, ...)                        \
    do {                                                    \
        if (!(condition)) {                                 \
            fprintf(stderr, "does not hold: " __VA_ARGS__); \
            fputc('\n', stderr);                            \
            abort();                                        \
        }                                                   \
    } while (0)

/* Called with each input; returns 0, or -1 for an input that is not worth keeping. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a string, ending at its first NUL if it has one. The caller frees it. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_REQUIRE(text != NULL, "out of memory");
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
