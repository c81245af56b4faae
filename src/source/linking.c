/* How the options of a source link it. */
#include "source/source.h"

#include "base/text.h"
#include <string.h>

kiln__linking kiln__source_linking(const kiln__unit *unit)
{
    const char *value;
    kiln__linking out = KILN__LINK_NONE;
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;) {
        if (kiln__option_is(at, "-dlto", &value))
            return KILN__LINK_OPTIMIZED;
        if (kiln__option_is(at, "-rdc", &value))
            out = strcmp(value, "false") != 0 ? KILN__LINK_CODE : KILN__LINK_NONE;
    }
    return out;
}

/* Of NVRTC and of nvJitLink, which has 0 and 1 for false and true. */
static const struct {
    const char *compiler, *linker;
} shared[] = {
    { "--ftz", "-ftz" },
    { "--prec-div", "-prec-div" },
    { "--prec-sqrt", "-prec-sqrt" },
    { "--fmad", "-fma" },
};

enum { SHARED = sizeof(shared) / sizeof(shared[0]), UNSET = -1 };

/* Takes what an option says of the values that both have. The last one counts. */
static void take_shared(int values[SHARED], const char *option)
{
    const char *value;
    bool fast = kiln__option_is(option, "--use_fast_math", &value);
    for (size_t i = 0; i < SHARED; i++)
        if (fast)
            values[i] = strcmp(shared[i].compiler, "--ftz") == 0 || strcmp(shared[i].compiler, "--fmad") == 0;
        else if (kiln__option_is(option, shared[i].compiler, &value))
            values[i] = strcmp(value, "true") == 0;
}

/* nvJitLink refuses an option that is given twice. */
static void add_generation(const kiln__unit *unit, kiln__list *out, kiln__text *option)
{
    int values[SHARED];
    const char *value, *registers = NULL, *directory = NULL;
    for (size_t i = 0; i < SHARED; i++)
        values[i] = UNSET;
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;) {
        take_shared(values, at);
        if (kiln__option_is(at, "--maxrregcount", &value))
            registers = value;
        else if (kiln__option_tells_directory(at))
            directory =
                strcmp(at, "-G") == 0 || (directory != NULL && strcmp(directory, "-g") == 0) ? "-g" : "-lineinfo";
    }
    kiln__list_add(out, "-lto");
    if (registers != NULL) {
        option->length = 0;
        kiln__text_printf(option, "-maxrregcount=%s", registers);
        kiln__list_add(out, kiln__text_string(option));
    }
    if (directory != NULL)
        kiln__list_add(out, directory);
    for (size_t i = 0; i < SHARED; i++) {
        option->length = 0;
        kiln__text_printf(option, "%s=%d", shared[i].linker, values[i]);
        if (values[i] != UNSET)
            kiln__list_add(out, kiln__text_string(option));
    }
}

void kiln__source_linker_options(const kiln__unit *unit, kiln__list *out)
{
    kiln__text option = { 0 };
    kiln__text_printf(&option, "-arch=%s", unit->target.name);
    kiln__list_add(out, kiln__text_string(&option));
    if (kiln__source_linking(unit) == KILN__LINK_OPTIMIZED)
        add_generation(unit, out, &option);
    out->bytes.failed = out->bytes.failed || option.failed;
    kiln__text_fini(&option);
}
