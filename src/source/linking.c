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

void kiln__source_linker_options(const kiln__unit *unit, kiln__list *out)
{
    const char *value;
    kiln__text option = { 0 };
    kiln__text_printf(&option, "-arch=%s", unit->target.name);
    kiln__list_add(out, kiln__text_string(&option));
    bool optimized = kiln__source_linking(unit) == KILN__LINK_OPTIMIZED;
    if (optimized)
        kiln__list_add(out, "-lto");
    for (const char *at = NULL; optimized && (at = kiln__list_next(&unit->options, at)) != NULL;) {
        bool fast = kiln__option_is(at, "--use_fast_math", &value);
        if (kiln__option_is(at, "--maxrregcount", &value)) {
            option.length = 0;
            kiln__text_printf(&option, "-maxrregcount=%s", value);
            kiln__list_add(out, kiln__text_string(&option));
        } else if (kiln__option_tells_directory(at)) {
            kiln__list_add(out, strcmp(at, "-G") == 0 ? "-g" : "-lineinfo");
        }
        for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
            if (fast || kiln__option_is(at, shared[i].compiler, &value)) {
                bool on = fast ? strcmp(shared[i].compiler, "--ftz") == 0 || strcmp(shared[i].compiler, "--fmad") == 0
                               : strcmp(value, "true") == 0;
                option.length = 0;
                kiln__text_printf(&option, "%s=%d", shared[i].linker, on);
                kiln__list_add(out, kiln__text_string(&option));
            }
    }
    out->bytes.failed = out->bytes.failed || option.failed;
    kiln__text_fini(&option);
}
