/* Expands words and manifests into a list of specs. */
#include "warm/worklist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ownfiles.h"
#include "files/whole.h"
#include "kernels/built.h"
#include "text/spectext.h"

/* How the library begins a file of recorded requests. */
static const char recorded[] = "# kiln record";

/* The specs of one line on their way into the list. */
typedef struct addition {
    struct worklist *list;
    struct session *session;
    const char *where;
    int result;
    bool lenient; /* specs that the library refuses are skipped */
    bool skipped; /* some of the line was */
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

/* Whether a failure of a recorded line is the line's own; then the line, or a part of it, is skipped. */
static bool skip_refused(addition *a, kiln_status status)
{
    if (!a->lenient || (status != KILN_ESPEC && status != KILN_EOP))
        return false;
    note("%s: skipped: %s", a->where, a->session->report.message);
    kiln_report_clear(&a->session->report);
    a->list->skipped += !a->skipped;
    a->skipped = true;
    return true;
}

/* The exit status of a definition. A recorded one that cannot be made is skipped, and later the lines that need it. */
static int end_definition(addition *a, kiln_status status)
{
    bool missing = a->lenient && (status == KILN_ENOENT || status == KILN_EIO || status == KILN_EINVAL);
    return skip_refused(a, missing ? KILN_ESPEC : status) ? STATUS_DONE : session_status(a->session, status, a->where);
}

static int add_spec(void *data, const kiln_spec *spec)
{
    addition *a = data;
    struct worklist *list = a->list;
    char *source = NULL;
    const char *target = kiln_spec_field(spec, "target");
    kiln_status status = kiln_spec_source(&source, spec, &a->session->report);
    if (!status)
        status = check_target(a, spec, target);
    if (status) {
        a->result = skip_refused(a, status) ? STATUS_DONE : session_status(a->session, status, a->where);
    } else {
        if (list->count == list->room) {
            list->room = list->room ? 2 * list->room : 64;
            list->items = need_array(list->items, list->room, sizeof(*list->items));
        }
        list->items[list->count++] =
            (work_item){ .spec = whole_text(source, target), .asked = need_copy(kiln_spec_text(spec)) };
    }
    kiln_text_free(source);
    return a->result;
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
    list->chosen = "native";
    return STATUS_DONE;
}

/* Expands a line with a target, adds its specs, and gives the status of the expansion. */
static kiln_status expand_line(addition *a, const char *line)
{
    struct worklist *list = a->list;
    const char *named = spectext_field(line, "target");
    bool has_target = named && *named;
    if (!has_target && !list->target && !list->chosen)
        a->result = choose_target(list, a->session);
    if (a->result)
        return KILN_OK;
    if (!has_target)
        line = spectext_put(line, "target", list->target ? list->target : list->chosen);
    return kiln_spec_expand(a->session->service, line, add_spec, a, &a->session->report);
}

int worklist_add(struct worklist *list, struct session *session, const char *line, const char *where)
{
    addition a = { .list = list, .session = session, .where = where };
    kiln_status status = expand_line(&a, line);
    return status ? session_status(session, status, where) : a.result;
}

static int ignore_spec(void *data, const kiln_spec *spec)
{
    (void)data;
    (void)spec;
    return 1;
}

/* As worklist_add, for a line that a program wrote, perhaps one that was killed meanwhile or runs on another GPU. A
 * fault of --target itself is not the line's fault. */
static int add_recorded(struct worklist *list, struct session *session, const char *line, const char *where)
{
    addition a = { .list = list, .session = session, .where = where, .lenient = true };
    kiln_status status = expand_line(&a, line);
    if (!skip_refused(&a, status))
        return status ? session_status(session, status, where) : a.result;
    const char *target = need_format("target=%s", list->target ? list->target : list->chosen ? list->chosen : "");
    status = kiln_spec_expand(session->service, target, ignore_spec, NULL, &session->report);
    return session_status(session, status, "--target");
}

void worklist_define(struct worklist *list, const char *kind, const char *text)
{
    char *line = need_format("define %s %s", kind, text);
    for (char *c = line; *c; c++)
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    for (size_t i = 0; i < list->definitions.count; i++)
        if (strcmp(list->definitions.items[i], line) == 0)
            return;
    text_list_add(&list->definitions, line);
}

static void load_template(void *data, const char *path)
{
    addition *a = data;
    if (a->result)
        return;
    kiln_status status = kiln_template_load(a->session->service, path, NULL, &a->session->report);
    if (!status)
        worklist_define(a->list, "template", path);
    a->result = end_definition(a, status);
}

/* Makes the definition of a line "define KIND TEXT". */
static int add_definition(addition *a, const char *line)
{
    const char *kind, *text;
    kiln_status status = ownfiles_define(a->session->service, line, &kind, &text, &a->session->report);
    if (!status)
        worklist_define(a->list, kind, text);
    return end_definition(a, status);
}

static int add_line(struct worklist *list, struct session *session, const char *line, const char *where, bool lenient)
{
    char *resolved = NULL;
    addition a = { .list = list, .session = session, .where = where, .lenient = lenient };
    if (ownfiles_is_definition(line))
        return add_definition(&a, line);
    int status = ownfiles_resolve(&resolved, line, load_template, &a);
    if (status && lenient) {
        list->skipped++; /* after a message about a file that cannot be read */
        return STATUS_DONE;
    }
    if (!status)
        status = a.result;
    if (!status && !a.skipped)
        status = (lenient ? add_recorded : worklist_add)(list, session, resolved ? resolved : line, where);
    return status;
}

static int add_lines(struct worklist *list, struct session *session, FILE *file, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    int status = STATUS_DONE;
    bool lenient = false;
    for (unsigned long number = 1; !status && getline(&line, &room, file) >= 0; number++) {
        lenient = lenient || (number == 1 && strncmp(line, recorded, strlen(recorded)) == 0);
        line[strcspn(line, "#\n")] = '\0';
        /* A carriage return is a blank, as in records: text after it still counts. */
        if (line[strspn(line, " \t\r")] == '\0')
            continue;
        status = add_line(list, session, line, need_format("%s:%lu", path, number), lenient);
    }
    free(line);
    if (!status && ferror(file))
        status = fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    return status;
}

int worklist_add_file(struct worklist *list, struct session *session, const char *path)
{
    FILE *file = whole_open(path);
    if (!file)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    int status = add_lines(list, session, file, strcmp(path, "-") == 0 ? "stdin" : path);
    fclose(file);
    return status;
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
