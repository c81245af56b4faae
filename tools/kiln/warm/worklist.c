/* Expands words and manifests into a list of specs. */
#include "warm/worklist.h"

#include <stdlib.h>
#include <string.h>

#include "files/whole.h"
#include "kernels/built.h"
#include "text/spectext.h"

enum { MANIFEST_MAX = 64 << 20 /* bytes, as of a record */ };

/* Specs on their way into the list. */
typedef struct addition {
    struct worklist *list;
    struct session *session;
    const char *path;               /* of the manifest, NULL for the command line */
    const kiln_manifest_line *line; /* of the manifest */
    size_t skipped;                 /* its last line that was skipped, or a spec of it */
    int result;
} addition;

static int add_known_target(void *data, const kiln_spec *spec)
{
    text_list_add(data, need_copy(kiln_spec_field(spec, "target")));
    return 0;
}

/* The compiler lists plain numbers, "sm_90", and builds their variants too: a since sm_90, f since sm_100. */
static bool may_be_built(const text_list *targets, const char *target)
{
    char *end = NULL;
    bool plain_known = false;
    long number = strncmp(target, "sm_", 3) == 0 ? strtol(target + 3, &end, 10) : 0;
    size_t plain = end ? (size_t)(end - target) : 0;
    for (size_t i = 0; i < targets->count; i++) {
        const char *one = targets->items[i];
        if (strcmp(one, target) == 0)
            return true;
        plain_known |= plain > 0 && strncmp(one, target, plain) == 0 && one[plain] == '\0';
    }
    return plain_known && number >= (target[plain] == 'a' ? 90 : target[plain] == 'f' ? 100 : 0);
}

/* Fails if the compiler does not build for the spec's target. The compiler is asked only for a target that it does not
 * list, and answers before it compiles anything. */
static kiln_status check_target(const addition *a, const kiln_spec *spec, const char *target)
{
    struct worklist *list = a->list;
    kiln_report *report = &a->session->report;
    kiln_program *program = NULL;
    if (strcmp(target, "cpu") == 0 || list->unasked)
        return KILN_OK;
    if (!list->asked)
        list->unasked =
            kiln_spec_expand(a->session->service, "target=all", add_known_target, &list->targets, NULL) != KILN_OK;
    list->asked = true;
    if (list->unasked || may_be_built(&list->targets, target))
        return KILN_OK;
    kiln_status status = build_spec(&program, a->session->service, spec, report);
    kiln_program_release(program);
    if (status == KILN_ETARGET)
        return status;
    kiln_report_clear(report);
    text_list_add(&list->targets, need_copy(target));
    return KILN_OK;
}

/* The source's first line is a comment: the spec with every field set but the target. */
static char *whole_text(const char *source, const char *target)
{
    const char *line = source + strspn(source, "/ ");
    return need_format("%.*s target=%s", (int)strcspn(line, "\n"), line, target);
}

static char *place_of(const addition *a)
{
    return a->path ? need_format("%s:%zu", a->path, a->line->number) : NULL;
}

/* Notes that a recorded line, or a spec of it, is left out. */
static int skip_line(addition *a, const char *problem)
{
    note("%s: skipped: %s", place_of(a), problem);
    a->list->skipped += a->skipped != a->line->number;
    a->skipped = a->line->number;
    return STATUS_DONE;
}

/* Skips a recorded spec that the library refuses; any other failure is the command's. */
static int refuse_spec(addition *a, kiln_status status)
{
    if (!a->path || !a->line->recorded || (status != KILN_ESPEC && status != KILN_EOP))
        return session_status(a->session, status, place_of(a));
    skip_line(a, a->session->report.message);
    kiln_report_clear(&a->session->report);
    return STATUS_DONE;
}

static kiln_status add_aimed(addition *a, const kiln_spec *spec)
{
    struct worklist *list = a->list;
    char *source = NULL;
    const char *target = kiln_spec_field(spec, "target");
    kiln_status status = kiln_spec_source(&source, spec, &a->session->report);
    if (!status)
        status = check_target(a, spec, target);
    if (!status && list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = need_array(list->items, list->room, sizeof(*list->items));
    }
    if (!status)
        list->items[list->count++] =
            (work_item){ .spec = whole_text(source, target), .asked = need_copy(kiln_spec_text(spec)) };
    kiln_text_free(source);
    return status;
}

/* The default device's target, where that is a GPU or was asked for. */
static int choose_target(struct worklist *list, struct session *session)
{
    kiln_device *device = NULL;
    kiln_device_info info;
    kiln_status status = session_device(&device, &info, session, NULL);
    if (status)
        return session_status(session, status, NULL);
    if (strcmp(info.target, "cpu") == 0 && !list->device_name)
        return fail(STATUS_USAGE, "no target named and no GPU here; name one: --target sm_90, sm_80,sm_90, all or cpu");
    list->chosen = need_format("target=%s", info.target);
    return STATUS_DONE;
}

static int add_spec(void *data, const kiln_spec *spec)
{
    addition *a = data;
    kiln_spec *aimed = NULL;
    kiln_status status = KILN_OK;
    bool open = !*kiln_spec_field(spec, "target");
    if (open && !a->list->chosen)
        a->result = choose_target(a->list, a->session);
    if (a->result)
        return a->result;
    if (open)
        status = kiln_spec_with(&aimed, spec, a->list->chosen, &a->session->report);
    if (!status)
        status = add_aimed(a, open ? aimed : spec);
    kiln_spec_free(aimed);
    return a->result = status ? refuse_spec(a, status) : STATUS_DONE;
}

int worklist_add(struct worklist *list, struct session *session, const char *line)
{
    addition a = { .list = list, .session = session };
    const char *named = spectext_field(line, "target");
    if (list->target && !(named && *named))
        line = spectext_put(line, "target", list->target);
    kiln_status status = kiln_spec_expand(session->service, line, add_spec, &a, &session->report);
    return status ? session_status(session, status, NULL) : a.result;
}

void worklist_define(struct worklist *list, const char *definition)
{
    for (size_t i = 0; i < list->definitions.count; i++)
        if (strcmp(list->definitions.items[i], definition) == 0)
            return;
    text_list_add(&list->definitions, need_copy(definition));
}

static int add_line(void *data, const kiln_manifest_line *line)
{
    addition *a = data;
    a->line = line;
    if (line->spec)
        return add_spec(a, line->spec);
    if (*line->problem)
        return skip_line(a, line->problem);
    worklist_define(a->list, line->definition);
    return STATUS_DONE;
}

int worklist_add_file(struct worklist *list, struct session *session, const char *path)
{
    kiln_manifest manifest = KILN_INIT(kiln_manifest);
    char *text = NULL;
    int result = whole_file(&text, &manifest.length, path, MANIFEST_MAX);
    if (result)
        return result;
    manifest.text = text;
    manifest.name = strcmp(path, "-") == 0 ? "stdin" : path;
    manifest.target = list->target;
    addition a = { .list = list, .session = session, .path = manifest.name };
    kiln_status status = kiln_manifest_read(session->service, &manifest, add_line, &a, &session->report);
    return status ? session_status(session, status, NULL) : a.result;
}

/* By text, then by place, so that the first of equals comes first. */
static int by_text(const void *a, const void *b)
{
    const work_item *first = *(work_item *const *)a, *second = *(work_item *const *)b;
    int order = strcmp(first->spec, second->spec);
    return order ? order : (first > second) - (first < second);
}

void worklist_unique(struct worklist *list)
{
    work_item **sorted = need_array(NULL, list->count, sizeof(*sorted));
    for (size_t i = 0; i < list->count; i++)
        sorted[i] = &list->items[i];
    qsort(sorted, list->count, sizeof(*sorted), by_text);
    for (size_t i = list->count; i > 1; i--)
        if (strcmp(sorted[i - 1]->spec, sorted[i - 2]->spec) == 0)
            sorted[i - 1]->spec = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].spec)
            list->items[kept++] = list->items[i];
    list->count = kept;
}
