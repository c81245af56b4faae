#include "template/catalog.h"
#include "template/embedded.h"
#include "template/word.h"
#include <string.h>

static const char *embedded_text(const char *name, size_t length)
{
    for (size_t i = 0; i < kiln__embedded_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, kiln__embedded_files[i].name))
            return kiln__embedded_files[i].text;
    return NULL;
}

static bool has_ending(const char *name, const char *ending)
{
    size_t length = strlen(name), width = strlen(ending);
    return length > width && strcmp(name + length - width, ending) == 0;
}

/* "elementwise.cu" comes with "elementwise.c" where there is one: the name without its last letter. */
static kiln_status add_template(kiln__catalog *out, const kiln__embedded_file *file, kiln_report *report)
{
    if (out->template_count == KILN__TEMPLATES_MAX)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "more than %d templates: %s is one too many",
                          KILN__TEMPLATES_MAX, file->name);
    const char *twin = embedded_text(file->name, strlen(file->name) - 1);
    kiln__template **slot = &out->templates[out->template_count];
    kiln_status status = kiln__template_parse(slot, file->text, twin, report);
    out->template_count += status == KILN_OK;
    return status;
}

kiln_status kiln__catalog_init(kiln__catalog *out, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    const char *ops = embedded_text("ops.h", strlen("ops.h"));
    const char *functions = embedded_text("functions.h", strlen("functions.h"));
    out->prelude = embedded_text("real.h", strlen("real.h"));
    if (out->prelude == NULL || ops == NULL || functions == NULL)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without %s",
                          ops == NULL         ? "ops.h"
                          : functions == NULL ? "functions.h"
                                              : "real.h");
    kiln_status status = kiln__op_table_init(&out->ops, ops, report);
    if (status == KILN_OK)
        status = kiln__function_table_init(&out->functions, functions, report);
    for (size_t i = 0; i < kiln__embedded_count && status == KILN_OK; i++)
        if (has_ending(kiln__embedded_files[i].name, ".cu"))
            status = add_template(out, &kiln__embedded_files[i], report);
    if (status == KILN_OK && out->template_count == 0)
        status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without a template");
    if (status != KILN_OK)
        kiln__catalog_fini(out);
    return status;
}

void kiln__catalog_fini(kiln__catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->template_count; i++)
        kiln__template_free(catalog->templates[i]);
    kiln__op_table_fini(&catalog->ops);
    kiln__op_table_fini(&catalog->functions);
    memset(catalog, 0, sizeof(*catalog));
}

const kiln__template *kiln__catalog_template(const kiln__catalog *catalog, const char *name, size_t length)
{
    for (uint32_t i = 0; i < catalog->template_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, catalog->templates[i]->name))
            return catalog->templates[i];
    return NULL;
}
