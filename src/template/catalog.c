#include "template/catalog.h"
#include "lang/word.h"
#include "template/embedded.h"
#include "template/fields.h"
#include <string.h>

/* One with no text if there is none. */
static const kiln__embedded_file *embedded(const char *name, size_t length)
{
    static const kiln__embedded_file none;
    for (size_t i = 0; i < kiln__embedded_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, kiln__embedded_files[i].name))
            return &kiln__embedded_files[i];
    return &none;
}

/* FILE.c is the cpu twin of FILE.cu. */
static kiln_status read_templates(kiln__catalog *out, kiln_report *report)
{
    static const char ending[] = ".cu";
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < kiln__embedded_count && status == KILN_OK; i++) {
        const kiln__embedded_file *file = &kiln__embedded_files[i];
        size_t length = strlen(file->name), stem = length - strlen(ending);
        if (length <= strlen(ending) || strcmp(file->name + stem, ending) != 0)
            continue;
        const char *cpu_text = embedded(file->name, length - 1)->text;
        status = kiln__template_parse_own(&out->templates[out->template_count], file->text, cpu_text, report);
        out->template_count += status == KILN_OK;
    }
    return status;
}

kiln_status kiln__catalog_init(kiln__catalog *out, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    const kiln__embedded_file *prelude = embedded("real.h", strlen("real.h"));
    out->prelude = prelude->text;
    if (out->prelude == NULL)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without real.h");
    const char *ops = embedded("ops.txt", strlen("ops.txt"))->text;
    const char *functions = embedded("functions.h", strlen("functions.h"))->text;
    if (ops == NULL || functions == NULL)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without ops");
    kiln_status status = kiln__functions_find(&out->functions, functions, report);
    if (status == KILN_OK)
        status = kiln__op_table_init(&out->ops, ops, report);
    if (status == KILN_OK)
        status = read_templates(out, report);
    if (status != KILN_OK)
        kiln__catalog_fini(out);
    return status;
}

void kiln__catalog_fini(kiln__catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->template_count; i++)
        kiln__template_free(catalog->templates[i]);
    kiln__op_table_fini(&catalog->ops);
    memset(catalog, 0, sizeof(*catalog));
}

const kiln__template *kiln__catalog_template(const kiln__catalog *catalog, const char *name, size_t length)
{
    for (uint32_t i = 0; i < catalog->template_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, catalog->templates[i]->name))
            return catalog->templates[i];
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static kiln_status check_reference(const kiln__catalog *catalog, const kiln__template *template, kiln_report *report)
{
    kiln__fields spec, reference;
    kiln__expr room;
    kiln__spec_init(&spec, catalog);
    spec.template = template;
    return template->reference != NULL ? kiln__spec_reference(&reference, &room, &spec, report) : KILN_OK;
}

/* Whether a template may be added, is there already, or neither. */
static kiln_status compare(const kiln__template *known, const kiln__template *template, kiln_report *report)
{
    if (known->origin == NULL)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                          "template %s is one of Kiln's own: give yours another name", known->name);
    if (same_text(known->text, template->text) && same_text(known->cpu_text, template->cpu_text))
        return KILN_OK;
    return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                      "template %s is defined already (%s), with another text: give this one another name", known->name,
                      known->origin);
}

kiln_status kiln__catalog_define(kiln__catalog *catalog, const char *text, const char *cpu_text, const char *origin,
                                 const kiln__template **out, kiln_report *report)
{
    kiln__template *template;
    *out = NULL;
    kiln_status status = kiln__template_read(&template, text, cpu_text, origin, report);
    if (status != KILN_OK)
        return status;
    uint32_t count = catalog->template_count;
    const kiln__template *known = kiln__catalog_template(catalog, template->name, strlen(template->name));
    if (known != NULL)
        status = compare(known, template, report);
    else if (count == KILN__TEMPLATES_MAX)
        status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                            "there are %d templates, and no more can be defined", KILN__TEMPLATES_MAX);
    else
        status = check_reference(catalog, template, report);
    if (status == KILN_OK)
        *out = known != NULL ? known : template;
    if (status != KILN_OK || known != NULL) {
        kiln__template_free(template);
        return status;
    }
    catalog->templates[count] = template;
    atomic_store_explicit(&catalog->template_count, count + 1, memory_order_release);
    return KILN_OK;
}
