#include "cli/actions.h"

#include <stdlib.h>
#include <string.h>

#include "cli/nearest.h"

static const char *action_name(const void *actions, size_t index)
{
    return ((const action *)actions)[index].name;
}

static int find_action(const action **out, const action_set *set, const text_list *words)
{
    *out = NULL;
    if (words->count == 0)
        return options_wrong(set->usage, "nothing to do, expected %s", set->names);
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->actions[i].name, words->items[0]) == 0)
            *out = &set->actions[i];
    if (!*out) {
        const char *near = nearest_word(words->items[0], action_name, set->actions, set->count);
        return options_wrong(set->usage, "unknown action '%s': %s%s%s", words->items[0],
                             near ? "did you mean " : "expected ", near ? near : set->names, near ? "?" : "");
    }
    if (words->count - 1 < (*out)->least)
        return options_wrong(set->usage, "%s needs %s", (*out)->name, (*out)->needs);
    if (words->count - 1 > (*out)->most)
        return options_wrong(set->usage, "unexpected '%s'", words->items[(*out)->most + 1]);
    return OPTIONS_GO_ON;
}

static int run(const action *chosen, const action_args *args)
{
    struct session session;
    int status = session_open(&session, args->common);
    if (!status)
        status = chosen->run(&session, args->all);
    session_close(&session);
    return status;
}

int actions_run(const action_set *set, const option_row *rows, size_t count, const action_args *args, int argc,
                char **argv)
{
    text_list words = { NULL, 0 };
    const action *chosen = NULL;
    int status = options_parse(set->usage, rows, count, args->common, &words, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = find_action(&chosen, set, &words);
    if (status == OPTIONS_GO_ON) {
        *args->words = (text_list){ words.items + 1, words.count - 1 };
        status = set->check(chosen, args->all);
    }
    if (status == OPTIONS_GO_ON)
        status = run(chosen, args);
    free(words.items);
    return status;
}
