/* Finds and runs the action that the first word of a command names. */
#include "cli/actions.h"

#include <string.h>

#include "cli/complete.h"
#include "cli/nearest.h"
#include "cli/words.h"

static const action *find_action(const action_set *set, const char *name)
{
    size_t i = 0;
    while (i < set->count && strcmp(set->actions[i].name, name) != 0)
        i++;
    if (i == set->count) {
        const char *near = nearest_word(name, set->actions, set->count, sizeof(*set->actions));
        options_refuse(set->usage, "unknown action '%s': %s%s%s", name, near ? "did you mean " : "expected ",
                       near ? near : set->names, near ? "?" : "");
    }
    return &set->actions[i];
}

/* Gives the words after the action's name. */
static void read_words(text_list *out, const action_set *set, const action *chosen, const text_list *all)
{
    size_t first = chosen->specs ? chosen->specs : all->count;
    *out = (text_list){ NULL, 0 };
    for (size_t i = 1; i < all->count && i < first; i++)
        text_list_add(out, all->items[i]);
    if (first < all->count)
        words_specs(out, set->usage, all, first);
    if (out->count < chosen->least)
        options_refuse(set->usage, "%s needs %s", chosen->name, chosen->needs);
    if (out->count > chosen->most)
        options_refuse(set->usage, "unexpected '%s'", out->items[chosen->most]);
}

int actions_run(const action_set *set, const option_row *rows, size_t count, void *args, common_args *common,
                text_list *words, int argc, char **argv)
{
    text_list all = { NULL, 0 };
    complete_actions(set->actions, set->count, sizeof(*set->actions));
    options_parse(set->usage, rows, count, common, &all, argc, argv);
    if (all.count == 0)
        options_refuse(set->usage, "nothing to do, expected %s", set->names);
    const action *chosen = find_action(set, all.items[0]);
    read_words(words, set, chosen, &all);
    set->check(chosen, args);
    common->only_reads = chosen->only_reads;
    return session_run(common, chosen->run, args);
}
