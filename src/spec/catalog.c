/* The catalog: Kiln's own templates and ops, and user-defined ones behind them. */
#include "spec/catalog.h"

#include "spec/embedded.h"
#include "spec/fields.h"

/* The text of an embedded file; NULL if there is none. */
static const char *find_text(const char *name, size_t length)
{
    for (size_t i = 0; i < kiln__embedded_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, kiln__embedded_files[i].name))
            return kiln__embedded_files[i].text;
    return NULL;
}

/* FILE.cu is the template FILE, and FILE.c its cpu twin. */
static void find_templates(kiln__catalog *out)
{
    static const char ending[] = ".cu";
    for (size_t i = 0; i < kiln__embedded_count && out->own_count < KILN__OWN_TEMPLATES_MAX; i++) {
        const kiln__embedded_file *file = &kiln__embedded_files[i];
        size_t length = strlen(file->name), stem = length - strlen(ending);
        if (length <= strlen(ending) || stem >= KILN__TEMPLATE_NAME_SIZE || strcmp(file->name + stem, ending) != 0)
            continue;
        kiln__own_template *own = &out->own[out->own_count++];
        memcpy(own->name, file->name, stem);
        own->text = file->text;
        own->cpu_text = find_text(file->name, length - 1);
    }
    out->template_count = out->own_count;
}

kiln_status kiln__catalog_init(kiln__catalog *out, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    const char *ops = find_text("ops.txt", strlen("ops.txt"));
    const char *functions = find_text("functions.h", strlen("functions.h"));
    out->prelude = find_text("real.h", strlen("real.h"));
    out->rows = find_text("rows.h", strlen("rows.h"));
    out->scan = find_text("scan.h", strlen("scan.h"));
    if (out->prelude == NULL || out->rows == NULL || out->scan == NULL || ops == NULL || functions == NULL)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without %s",
                          out->prelude == NULL || out->rows == NULL || out->scan == NULL ? "its headers" : "ops");
    kiln_status status = kiln__functions_find(&out->functions, functions, report);
    if (status == KILN_OK)
        status = kiln__op_table_init(&out->ops, ops, report);
    find_templates(out);
    if (status == KILN_OK)
        status = kiln__catalog_find(out, kiln__word_of("elementwise"), &out->usual, report);
    if (status == KILN_OK && out->usual == NULL)
        status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the library was built without elementwise.cu");
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

const char *kiln__catalog_name(const kiln__catalog *catalog, uint32_t i)
{
    if (i < catalog->own_count)
        return catalog->own[i].name;
    return i < catalog->template_count ? catalog->templates[i]->name : NULL;
}

/* Threads that read a template at the same time make equal ones, of which the first stays. */
kiln_status kiln__catalog_load(const kiln__catalog *catalog, uint32_t i, const kiln__template **out,
                               kiln_report *report)
{
    _Atomic(kiln__template *) *place = &((kiln__catalog *)catalog)->templates[i];
    kiln__template *known = atomic_load_explicit(place, memory_order_acquire), *made = NULL;
    *out = known;
    if (known != NULL)
        return KILN_OK;
    kiln_status status = kiln__template_read(&made, catalog->own[i].text, catalog->own[i].cpu_text, NULL, true, report);
    if (status != KILN_OK)
        return status;
    *out = made;
    if (!atomic_compare_exchange_strong(place, &known, made)) {
        kiln__template_free(made);
        *out = known;
    }
    return KILN_OK;
}

kiln_status kiln__catalog_find(const kiln__catalog *catalog, kiln__word name, const kiln__template **out,
                               kiln_report *report)
{
    *out = NULL;
    for (uint32_t i = 0; i < catalog->template_count; i++)
        if (kiln__word_is(name, kiln__catalog_name(catalog, i)))
            return kiln__catalog_load(catalog, i, out, report);
    return KILN_OK;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* The line of a declaration that a template has once. */
static unsigned line_of(const char *text, const char *keyword)
{
    unsigned line = 1;
    for (; text != NULL && *text != '\0'; line++) {
        kiln__word rest = { text, strcspn(text, "\n") };
        bool declares = strncmp(text, "//!", 3) == 0;
        rest = kiln__word_trim((kiln__word){ rest.text + (declares ? 3 : 0), rest.length - (declares ? 3 : 0) });
        if (declares && kiln__word_is(kiln__word_next(&rest), keyword))
            return line;
        text = strchr(text, '\n');
        text += text != NULL;
    }
    return 0;
}

/* An op is read later than the declarations, which know none. */
static kiln_status check_reference(const kiln__catalog *catalog, const kiln__template *template, kiln_report *report)
{
    kiln__fields spec, reference;
    kiln__real room;
    kiln_report why = KILN_INIT(kiln_report);
    const char *origin = template->origin;
    kiln__spec_init(&spec, catalog);
    spec.template = template;
    kiln_status status = template->reference != NULL ? kiln__spec_reference(&reference, &room, &spec, &why) : KILN_OK;
    unsigned line = line_of(template->text, "reference");
    if (status == KILN_ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    if (status != KILN_OK && strchr(origin, '/') != NULL)
        return kiln__fail(report, status, KILN__STAGE_SPEC, 0, "%s:%u: reference: %s", origin, line, why.message);
    if (status != KILN_OK)
        return kiln__fail(report, status, KILN__STAGE_SPEC, 0, "template %s, line %u: reference: %s", template->name,
                          line, why.message);
    return KILN_OK;
}

/* KILN_OK where the known template of that name is the same. */
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
    kiln_status status = kiln__template_read(&template, text, cpu_text, origin, false, report);
    if (status != KILN_OK)
        return status;
    uint32_t count = catalog->template_count;
    const kiln__template *known;
    status = kiln__catalog_find(catalog, kiln__word_of(template->name), &known, report);
    if (status != KILN_OK)
        known = NULL;
    else if (known != NULL)
        status = compare(known, template, report);
    else if (count == KILN__TEMPLATES_MAX)
        status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                            "there are %d templates, and no more can be defined", KILN__TEMPLATES_MAX);
    else
        status = check_reference(catalog, template, report);
    if (status == KILN_OK && known == NULL)
        status = kiln__template_check_twin(template, report);
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
