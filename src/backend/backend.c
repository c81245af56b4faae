/* Images and facts of compilers, apart from any backend. */
#include "backend/backend.h"

#include "base/alloc.h"
#include <string.h>

void kiln__toolchain_list_targets(const kiln__toolchain *toolchain, kiln__text *out)
{
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? " " : "", toolchain->targets[i].name);
}

bool kiln__toolchain_read_targets(kiln__toolchain *out, const char *text)
{
    while (text[0] != '\0') {
        size_t length = strcspn(text, " ");
        if (out->target_count == KILN__TARGETS_MAX ||
            !kiln__target_parse(text, length, &out->targets[out->target_count]))
            return false;
        out->target_count++;
        text += length + (text[length] == ' ');
    }
    return true;
}

void kiln__image_fini(kiln__image *image)
{
    kiln__free(image->binary);
    kiln__free(image->ptx);
    kiln__free(image->log);
    kiln__free(image->functions);
    kiln__free(image->names);
    kiln__free(image->linker);
    kiln__free(image->reads);
    memset(image, 0, sizeof(*image));
}

static bool add_text(kiln__entry *entry, const char *name, const char *text)
{
    return text == NULL || text[0] == '\0' || kiln__entry_add(entry, name, text, strlen(text));
}

kiln_status kiln__image_describe(kiln__entry *out, const kiln__image *image, const kiln__unit *unit, kiln__text *names)
{
    const char *section = kiln__target_facts(&unit->target)->section;
    memset(out, 0, sizeof(*out));
    out->kind = KILN__ENTRY_KERNEL;
    for (uint32_t i = 0; i < unit->rule.entry_count; i++)
        kiln__text_printf(names, "%s\n", unit->rule.entries[i].name);
    if (image->names != NULL)
        kiln__text_append(names, image->names);
    if (names->failed)
        return KILN_ENOMEM;
    bool fits = add_text(out, "spec", unit->spec) &&
                kiln__entry_add(out, section, image->binary, image->binary_length) &&
                (image->ptx == NULL || kiln__entry_add(out, "ptx", image->ptx, image->ptx_length)) &&
                kiln__entry_add(out, "names", kiln__text_string(names), names->length) &&
                add_text(out, "functions", image->functions) && add_text(out, "log", image->log);
    return fits ? KILN_OK : KILN_ENOMEM;
}
