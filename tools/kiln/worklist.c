#include "worklist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spectext.h"

/* How the library begins a file of recorded requests. */
static const char recorded[] = "# kiln record";

static int add_spec(void *data, kiln_spec *spec)
{
    struct worklist *list = data;
    size_t length = 0;
    kiln_spec_format(spec, NULL, 0, &length);
    char *text = need_alloc(length + 1);
    kiln_spec_format(spec, text, length + 1, NULL);
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = need_array(list->items, list->room, sizeof(*list->items));
    }
    list->items[list->count++] = (work_item){ .spec = text };
    return 0;
}

/* The default device's target, where that is a GPU or was asked for. */
static int choose_target(struct worklist *list, struct session *session)
{
    kiln_device *device = NULL;
    kiln_device_info info = { .size = sizeof(info) };
    kiln_status status = kiln_device_open(&device, session->service, NULL, &session->report);
    if (!status)
        status = kiln_device_get_info(device, &info);
    if (status)
        return session_fail(session, status, NULL);
    if (strcmp(info.target, "cpu") == 0 && !list->device_name)
        return fail(STATUS_USAGE, "no target named and no GPU here; name one: --target sm_90, sm_80,sm_90, all or cpu");
    list->chosen = "native";
    return STATUS_DONE;
}

static int fail_at(int status, const char *where, const char *message, const char *detail)
{
    return fail(status, "%s%s%s%s", where ? where : "", where ? ": " : "", message, detail);
}

/* The line with a target, which the caller frees. */
static int with_target(char **out, struct worklist *list, struct session *session, const char *line, const char *where)
{
    char *named = NULL;
    int status = STATUS_DONE;
    *out = NULL;
    if (spectext_field(&named, line, "target")) {
        if (list->target && strcmp(named, list->target) != 0)
            status =
                fail_at(STATUS_USAGE, where, "--target and the spec name different targets; leave one out: ", line);
        else
            *out = need_copy(line);
        free(named);
        return status;
    }
    if (!list->target && !list->chosen)
        status = choose_target(list, session);
    if (!status)
        *out = need_format("%s target=%s", line, list->target ? list->target : list->chosen);
    return status;
}

int worklist_add(struct worklist *list, struct session *session, const char *line, const char *where)
{
    char *whole = NULL;
    int result = with_target(&whole, list, session, line, where);
    if (result)
        return result;
    kiln_status status = kiln_spec_expand(session->service, whole, add_spec, list, &session->report);
    free(whole);
    return status ? session_fail(session, status, where) : STATUS_DONE;
}

static int ignore_spec(void *data, kiln_spec *spec)
{
    (void)data;
    (void)spec;
    return 1;
}

/* As worklist_add, for a line that a program wrote, perhaps one that was killed meanwhile or runs on another GPU. What
 * is wrong with --target itself is not the line's fault. */
static int add_recorded(struct worklist *list, struct session *session, const char *line, const char *where)
{
    char *whole = NULL;
    int result = with_target(&whole, list, session, line, where);
    if (result)
        return result;
    kiln_status status = kiln_spec_expand(session->service, whole, add_spec, list, &session->report);
    free(whole);
    if (status != KILN_ESPEC && status != KILN_EOP)
        return status ? session_fail(session, status, where) : STATUS_DONE;
    char *target = need_format("target=%s", list->target ? list->target : list->chosen ? list->chosen : "");
    note("%s: skipped: %s", where, session->report.message);
    kiln_report_clear(&session->report);
    status = kiln_spec_expand(session->service, target, ignore_spec, NULL, &session->report);
    free(target);
    list->skipped++;
    return status ? session_fail(session, status, "--target") : STATUS_DONE;
}

static int add_lines(struct worklist *list, struct session *session, FILE *file, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    int status = STATUS_DONE;
    bool lenient = false;
    for (unsigned long number = 1; !status && getline(&line, &room, file) >= 0; number++) {
        lenient = lenient || (number == 1 && strncmp(line, recorded, strlen(recorded)) == 0);
        line[strcspn(line, "#\r\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        char *where = need_format("%s:%lu", path, number);
        status = (lenient ? add_recorded : worklist_add)(list, session, line, where);
        free(where);
    }
    free(line);
    if (!status && ferror(file))
        status = fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    return status;
}

int worklist_add_file(struct worklist *list, struct session *session, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    if (!file)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    int status = add_lines(list, session, file, standard ? "stdin" : path);
    if (!standard)
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

static void free_item(work_item *item)
{
    free(item->spec);
    free(item->problem);
    free(item->log);
    free(item->built);
    *item = (work_item){ .spec = NULL };
}

void worklist_unique(struct worklist *list)
{
    work_item **sorted = need_array(NULL, list->count, sizeof(*sorted));
    for (size_t i = 0; i < list->count; i++)
        sorted[i] = &list->items[i];
    qsort(sorted, list->count, sizeof(*sorted), by_text);
    for (size_t i = list->count; i > 1; i--)
        if (strcmp(sorted[i - 1]->spec, sorted[i - 2]->spec) == 0)
            free_item(sorted[i - 1]);
    free(sorted);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].spec)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

void worklist_free(struct worklist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_item(&list->items[i]);
    free(list->items);
    *list = (struct worklist){ .items = NULL };
}
