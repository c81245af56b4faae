#include "warm/warmcheck.h"

#include "kernels/built.h"
#include "text/jsonout.h"

struct findings {
    size_t found, missing, failed;
    bool only_usage; /* every failure is one of the specs */
};

static void probe_item(struct session *session, work_item *item)
{
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    item->status = kiln_spec_parse(&spec, session->service, item->spec, &session->report);
    if (!item->status)
        item->status = find_spec(&program, session->service, spec, &session->report);
    if (item->status && item->status != KILN_ESTRICT)
        session_fail(session, item->status, item->asked);
    item->done = true;
    kiln_report_clear(&session->report);
    kiln_program_release(program);
    kiln_spec_free(spec);
}

static struct findings probe_all(struct worklist *list, struct session *session)
{
    struct findings sum = { .only_usage = true };
    for (size_t i = 0; i < list->count; i++) {
        work_item *item = &list->items[i];
        probe_item(session, item);
        if (item->status == KILN_OK) {
            sum.found++;
        } else if (item->status == KILN_ESTRICT) {
            sum.missing++;
        } else {
            sum.failed++;
            sum.only_usage = sum.only_usage && exit_status(item->status) == STATUS_USAGE;
        }
    }
    return sum;
}

static void print_json(const struct worklist *list, const struct findings *sum)
{
    json_t *object = json_new(), *missing = json_list();
    json_put_count(object, "specs", list->count);
    json_put_count(object, "found", sum->found);
    json_put_count(object, "missing", sum->missing);
    json_put_count(object, "failed", sum->failed);
    json_put_count(object, "skipped", list->skipped);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].status != KILN_ESTRICT)
            continue;
        json_t *item = json_new();
        json_put_text(item, "spec", list->items[i].asked);
        json_add(missing, item);
    }
    json_put(object, "to_compile", missing);
    json_print(object);
}

int warm_check(struct worklist *list, struct session *session, bool json)
{
    struct findings sum = probe_all(list, session);
    if (json)
        print_json(list, &sum);
    for (size_t i = 0; i < list->count && !json; i++)
        if (list->items[i].status == KILN_ESTRICT)
            puts(list->items[i].asked);
    if (sum.missing > 0)
        fail(STATUS_FAILED, "%zu of %zu specs would have to be compiled", sum.missing, list->count);
    else if (sum.failed == 0 && !json)
        note("%zu spec%s: nothing to compile", list->count, list->count == 1 ? "" : "s");
    if (sum.missing + sum.failed == 0)
        return STATUS_DONE;
    return sum.failed == list->count && sum.only_usage ? STATUS_USAGE : STATUS_FAILED;
}
