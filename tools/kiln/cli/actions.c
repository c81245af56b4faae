/* Finds and runs the action that the first word of a command names. */
#include "cli/actions.h"

#include <string.h>

#include "cli/complete.h"
#include "cli/nearest.h"

static const action *find_action(const action_set *set, const text_list *words)
{
    if (words->count == 0)
        options_refuse(set->usage, "nothing to do, expected %s", set->names);
    const char *name = words->items[0];
    size_t i = 0;
    while (i < set->count && strcmp(set->actions[i].name, name) != 0)
        i++;
    const action *found = &set->actions[i];
    if (i == set->count) {
        const char *near = nearest_word(name, set->actions, set->count, sizeof(*set->actions));
        options_refuse(set->usage, "unknown action '%s': %s%s%s", name, near ? "did you mean " : "expected ",
                       near ? near : set->names, near ? "?" : "");
    }
    if (words->count - 1 < found->least)
        options_refuse(set->usage, "%s needs %s", name, found->needs);
    if (words->count - 1 > found->most)
        options_refuse(set->usage, "unexpected '%s'", words->items[found->most + 1]);
    return found;
}

int actions_run(const action_set *set, const option_row *rows, size_t count, void *args, common_args *common,
                text_list *words, int argc, char **argv)
{
    text_list all = { NULL, 0 };
    complete_actions(set->actions, set->count, sizeof(*set->actions));
    options_parse(set->usage, rows, count, common, &all, argc, argv);
    const action *chosen = find_action(set, &all);
    *words = (text_list){ all.items + 1, all.count - 1 };
    set->check(chosen, args);
    common->only_reads = chosen->only_reads;
    return session_run(common, chosen->run, args);
}
