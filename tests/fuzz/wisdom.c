/* Files of wisdom: what is read is right, is written in one form and is never chosen differently in another order. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "support/fields.h"
#include "wisdom/match.h"
#include "wisdom/record.h"

enum { ITEMS_MAX = 64 };

static const kiln__catalog *catalog(void)
{
    static kiln__catalog catalog;
    if (catalog.template_count == 0)
        FUZZ_REQUIRE(kiln__catalog_init(&catalog, NULL) == KILN_OK, "the embedded templates are good");
    return &catalog;
}

static char *write_all(const kiln__wisdom_set *set, size_t *length)
{
    kiln__text text = { 0 };
    kiln__wisdom_write(set, &text);
    *length = text.length;
    char *taken = kiln__text_take(&text);
    FUZZ_REQUIRE(taken != NULL, "out of memory");
    return taken;
}

/* What is written rounds measurements, so the second text is the one to compare with. */
static void require_one_form(const kiln__wisdom_set *set)
{
    char problem[KILN__WISDOM_REASON];
    kiln__wisdom_set again;
    size_t length, length_again;
    char *text = write_all(set, &length);
    FUZZ_REQUIRE(kiln__wisdom_read(&again, text, length, problem) == KILN__WISDOM_GOOD,
                 "what is written reads back: %s in\n%s", problem, text);
    FUZZ_REQUIRE(again.count == set->count, "every record reads back");
    char *text_again = write_all(&again, &length_again);
    FUZZ_REQUIRE(length == length_again && memcmp(text, text_again, length) == 0, "a file has one form:\n%s\n%s", text,
                 text_again);
    kiln__free(text);
    kiln__free(text_again);
    kiln__wisdom_set_fini(&again);
}

static void require_sound(const kiln__wisdom_set *set)
{
    char problem[KILN__WISDOM_REASON];
    for (size_t i = 0; i < set->count; i++) {
        FUZZ_REQUIRE(kiln__wisdom_record_check(set->records[i], problem), "a record is right: %s", problem);
        FUZZ_REQUIRE(i == 0 || kiln__wisdom_record_compare(set->records[i - 1], set->records[i]) < 0,
                     "records are sorted and about different things");
    }
}

static int count_candidate(void *data, const kiln_wisdom_candidate *candidate)
{
    FUZZ_REQUIRE(candidate->reason[0] != '\0', "every candidate has a reason");
    *(int *)data += candidate->chosen;
    return 0;
}

static void choose(const kiln__wisdom_set *set, const char *text)
{
    static const kiln__wisdom_device device = { "NVIDIA H200", "sm_90", 132, 0, 0 };
    kiln__wisdom_item items[ITEMS_MAX], reversed[ITEMS_MAX];
    kiln__wisdom_choice choice, again;
    kiln__fields spec, full;
    kiln__target target;
    int chosen = 0;
    size_t count = set->count < ITEMS_MAX ? set->count : ITEMS_MAX;
    for (size_t i = 0; i < count; i++)
        items[i] = reversed[count - 1 - i] = (kiln__wisdom_item){ set->records[i], KILN__WISDOM_OWN };
    FUZZ_REQUIRE(kiln_test_fields(&spec, catalog(), text, NULL) == KILN_OK, "a spec");
    const kiln__wisdom_query query = { &spec, &device, "nvrtc-13.0.88" };
    FUZZ_REQUIRE(kiln__wisdom_choose(&choice, items, count, &query, "", count_candidate, &chosen, NULL) == KILN_OK &&
                     kiln__wisdom_choose(&again, reversed, count, &query, "", NULL, NULL, NULL) == KILN_OK,
                 "a choice can be made");
    FUZZ_REQUIRE(memcmp(&choice, &again, sizeof(choice)) == 0, "the order does not matter");
    FUZZ_REQUIRE(chosen == choice.found, "one is chosen if one is found");
    kiln__wisdom_apply(&choice, &spec);
    FUZZ_REQUIRE(kiln__target_parse("sm_90", 5, &target) && kiln__spec_resolve(&full, &spec, &target, NULL) == KILN_OK,
                 "what is chosen is allowed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char problem[KILN__WISDOM_REASON];
    kiln__wisdom_set set;
    kiln__wisdom_fault fault = kiln__wisdom_read(&set, (const char *)data, size, problem);
    FUZZ_REQUIRE((fault == KILN__WISDOM_GOOD) == (problem[0] == '\0'), "a fault has a reason");
    FUZZ_REQUIRE(fault == KILN__WISDOM_GOOD || (set.count == 0 && set.records == NULL), "a refused file gives nothing");
    require_sound(&set);
    if (fault == KILN__WISDOM_GOOD) {
        require_one_form(&set);
        choose(&set, "op=relu6 dtype=f32 n=1048576");
        choose(&set, "op=relu6 dtype=f16 block=256");
    }
    kiln__wisdom_set_fini(&set);
    return 0;
}
