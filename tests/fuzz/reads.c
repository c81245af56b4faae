/* What compiles of a source have read, as it comes from a worker and from a store; options; sources' includes and
 * functions. */
#include "source/reads.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "source/source.h"
static void read_list(const char *text, size_t size)
{
    kiln__text again = { 0 }, contents = { 0 };
    const char *at = text, *end = text + size;
    kiln__read line;
    bool sound = kiln__reads_are_sound(text, size);
    while (at < end && kiln__reads_next(&at, end, &line)) {
        FUZZ_REQUIRE(strlen(line.place) > 0 && strpbrk(line.place, "/.") == NULL, "a place is a plain name");
        FUZZ_REQUIRE(strchr(line.path, '\n') == NULL, "a path stands on one line");
        kiln__reads_add(&again, &line);
    }
    FUZZ_REQUIRE(!sound || (again.length == size && (size == 0 || memcmp(again.data, text, size) == 0)),
                 "what is read is written the same");
    kiln__reads_contents(&contents, text, size);
    FUZZ_REQUIRE(!sound || kiln__reads_are_sound(kiln__text_string(&contents), contents.length),
                 "files alone are a list");
    kiln__text_fini(&again);
    kiln__text_fini(&contents);
}

static void read_source(const char *text)
{
    const char *const lines[] = { text };
    const kiln_header header = { "a.h", text };
    kiln_source given = KILN_INIT(kiln_source);
    kiln__unit *unit;
    kiln__text key = { 0 };
    given.text = given.name = text;
    given.options = given.functions = given.defines = lines;
    given.option_count = text[0] == '-';
    given.function_count = given.define_count = text[0] != '-';
    given.headers = &header;
    given.header_count = 1;
    if (kiln__source_make(&unit, &given, NULL) == KILN_OK) {
        kiln__source_key_text(&key, unit, "");
        FUZZ_REQUIRE(strncmp(key.data, "kiln-source 3\n", 14) == 0, "a key has a version");
        kiln__text_fini(&key);
        kiln__unit_free(unit);
    }
    given = (kiln_source)KILN_INIT(kiln_source);
    given.text = text;
    if (kiln__source_make(&unit, &given, NULL) != KILN_OK)
        return;
    kiln__text list = { 0 };
    kiln__source_list_kernels(&list, unit);
    FUZZ_REQUIRE(list.length < 300 && strchr(kiln__text_string(&list), '\n') == NULL, "a list of functions is a line");
    kiln__text_fini(&list);
    kiln__list_add(&unit->places, "0");
    kiln__list_add(&unit->places, "/include");
    kiln__free(kiln__source_show_log(unit, text));
    kiln__unit_free(unit);
}

/* An option that is passed on is so in one spelling. */
static void take_option(const char *text)
{
    kiln__unit first = { .source = NULL }, second = { .source = NULL };
    const char *passed = NULL;
    if (kiln__option_take(&first, text, "8", NULL) == KILN_OK && (passed = kiln__list_next(&first.options, NULL)))
        FUZZ_REQUIRE(kiln__option_take(&second, passed, NULL, NULL) == KILN_OK &&
                         strcmp(kiln__list_next(&second.options, NULL), passed) == 0,
                     "an option stays what it is");
    kiln__unit_fini_source(&first);
    kiln__unit_fini_source(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char place[KILN__PLACE_SIZE], path[KILN__READ_PATH_MAX];
    char *text = fuzz_string(data, size);
    read_list((const char *)data, size);
    take_option(text);
    if (kiln__reads_split(text, place, path))
        FUZZ_REQUIRE(strncmp(text, KILN__READS_ROOT "/", strlen(KILN__READS_ROOT) + 1) == 0,
                     "only paths of places are split");
    read_source(text);
    free(text);
    return 0;
}
