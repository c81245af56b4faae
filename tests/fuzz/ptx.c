/* PTX: any bytes are refused with a reason, or are text that ends where it says, for a GPU that is known. */
#include "fuzz/fuzz.h"
#include "gpu/cubin.h"

enum { SM_MAX = 1000 };

static void require_good(const char *text, size_t length)
{
    char reason[KILN__CUBIN_REASON_SIZE] = "";
    size_t end = strnlen(text, length);
    int lowest = 0;
    FUZZ_REQUIRE(end + 1 >= length, "no NUL but the last byte");
    FUZZ_REQUIRE(kiln__ptx_check(text, end, 0, reason), "the NUL is none of its text: %s", reason);
    while (lowest < SM_MAX && !kiln__ptx_check(text, length, lowest + 1, reason))
        lowest++;
    FUZZ_REQUIRE(lowest < SM_MAX && reason[0] != '\0', "it names a GPU");
    FUZZ_REQUIRE(kiln__ptx_check(text, length, SM_MAX, reason), "a newer GPU is not too old: %s", reason);
}

static void require_refused_within(const char *text, size_t length)
{
    char reason[KILN__CUBIN_REASON_SIZE], *copy = fuzz_string((const uint8_t *)text, length);
    if (length > 1) {
        copy[length / 2] = '\0';
        FUZZ_REQUIRE(length / 2 == length - 1 || !kiln__ptx_check(copy, length, 0, reason), "a NUL inside is refused");
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char reason[KILN__CUBIN_REASON_SIZE] = "";
    const char *text = (const char *)data; /* of its exact length, so that a sanitizer sees what is read behind it */
    if (kiln__ptx_check(text, size, 0, reason)) {
        require_good(text, size);
        require_refused_within(text, size);
    } else {
        FUZZ_REQUIRE(reason[0] != '\0', "a refusal says why");
    }
    if (kiln__ptx_has_entry(text, size, "kiln_vector"))
        FUZZ_REQUIRE(memmem(text, size, "kiln_vector", 11) != NULL, "what is found is there");
    return 0;
}
