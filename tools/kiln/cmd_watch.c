#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ownfiles.h"
#include "cli/screen.h"
#include "commands.h"
#include "text/format.h"
#include "watch/watcher.h"
#include "watch/watchsource.h"
#include "watch/watchtemplate.h"

static const struct usage usage = {
    "kiln watch FILE.cu [FIELDS...] [-I DIR]... [--size N|NAME=N]... [--arg NAME=VALUE]... [--once] [options]",
    "Compiles FILE.cu each time that it is saved. A template of your own (//! template) is also checked bit for\n"
    "bit, as by kiln run --verify, and timed against the last version that was good and against a plain copy;\n"
    "FIELDS are those of its specs, lists included. Of another file the registers, stack and shared memory of\n"
    "its functions are compared; it is compiled anew when a header below a DIR has changed, too. Errors are\n"
    "shown in place. Ctrl-C ends it.",
    "  kiln watch hardsigmoid256.cu block=64,128,256\n"
    "  kiln watch scale.cu -I include --target sm_90\n"
    "  kiln watch transpose.cu --size rows=4096 --size cols=4096 --once --json",
};

static int parse_args(watch_args *args, text_list *words, int argc, char **argv)
{
    const option_row rows[] = {
        SOURCE_ARGS_ROWS(&args->source),
        { "target", 't', OPTION_TEXT, "NAME", "sm_90, or cpu; default the device's", &args->target },
        { "size", 's', OPTION_LIST, "N|NAME=N",
          "elements of each array, default 2^26 on a GPU, 2^22 on the cpu; or a size", &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a number that a kernel of your own takes", &args->texts.numbers },
        { "once", 0, OPTION_FLAG, NULL, "one round, and the status 1 if something is wrong", &args->once },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, words, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (words->count == 0)
        return options_wrong(&usage, "no FILE given");
    for (size_t i = 0; i < args->texts.sizes.count; i++) {
        const char *value = strchr(args->texts.sizes.items[i], '=');
        uint64_t size;
        if (!parse_size(&size, value ? value + 1 : args->texts.sizes.items[i]))
            return options_wrong(&usage, "--size %s is not a size; expected 1048576, 2^20, 64M or 4096x393216",
                                 args->texts.sizes.items[i]);
    }
    args->file = words->items[0];
    size_t length = strlen(args->file);
    if (length < 4 || strcmp(args->file + length - 3, ".cu") != 0)
        return options_wrong(&usage, "'%s' is no FILE.cu", args->file);
    return OPTIONS_GO_ON;
}

static char *join(const text_list *words, size_t first)
{
    char *joined = need_copy("");
    for (size_t i = first; i < words->count; i++) {
        char *longer = need_format("%s%s%s", joined, *joined ? " " : "", words->items[i]);
        free(joined);
        joined = longer;
    }
    return joined;
}

/* What a file of one kind has no use for. */
static int check_kind(const watch_args *args, bool is_template)
{
    const source_args *source = &args->source;
    if (!is_template && *args->fields)
        return options_wrong(&usage, "%s declares no template, so there are no fields such as %s", args->file,
                             args->fields);
    if (!is_template && (args->texts.sizes.count || args->texts.numbers.count))
        return options_wrong(&usage, "%s declares no template, so there is nothing for --size and --arg to name",
                             args->file);
    if (is_template && (source->includes.count || source->defines.count || source->functions.count ||
                        source->options.count || source->no_cuda))
        return options_wrong(&usage,
                             "%s declares a template, which includes nothing and has no options: fields such "
                             "as block=128 vary it",
                             args->file);
    return STATUS_DONE;
}

/* ---- Rounds */

typedef struct watch {
    const watch_args *args;
    struct watchtemplate *template; /* one of the two */
    struct watchsource *source;
    struct screen screen;
    uint64_t rounds;
    char *errors; /* of the round that was shown last */
} watch;

static char *print_text(const watch_round *round, const char *errors)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (!stream)
        return need_copy("");
    if (round->title)
        fprintf(stream, "%s\n", round->title);
    if (json_array_size(round->rows) > 0)
        table_print(round->table, stream);
    fputs(errors, stream);
    fclose(stream);
    return text;
}

static void print_json(const watch *self, const watch_round *round, int status, const char *errors)
{
    json_t *object = json_new();
    json_put_text(object, "file", self->args->file);
    json_put_count(object, "round", self->rounds);
    json_put_text(object, "result", round->unchanged ? "unchanged" : status ? "failed" : "good");
    json_put(object, "rows", json_incref(round->rows));
    json_put_text(object, "messages", errors);
    json_print(object);
}

static void print_round(watch *self, const watch_round *round, int status, const char *errors)
{
    if (self->args->common.json) {
        print_json(self, round, status, errors);
    } else if (round->unchanged) {
        if (!self->screen.terminal)
            printf("%s: unchanged\n", self->args->file);
    } else {
        char *text = print_text(round, self->screen.terminal ? errors : "");
        if (self->rounds > 1 && !self->screen.terminal)
            printf("\n");
        screen_show(&self->screen, text);
        if (!self->screen.terminal)
            fputs(errors, stderr);
        free(text);
    }
    fflush(stdout);
}

/* Messages of a round belong to what is drawn for it. */
static int catch_messages(watch *self, watch_round *round, char **messages)
{
    size_t length = 0;
    FILE *stream = open_memstream(messages, &length);
    diagnostics_to(stream);
    int status = self->template ? watchtemplate_round(self->template, round) : watchsource_round(self->source, round);
    diagnostics_to(NULL);
    if (stream)
        fclose(stream);
    if (!stream || !*messages)
        *messages = need_copy("");
    return status;
}

/* Returns the status of the round; *over tells to end. */
static int one_round(watch *self, bool *over)
{
    char *messages = NULL;
    watch_round round = {
        .table = table_new(self->template ? watchtemplate_columns : watchsource_columns),
        .rows = json_list(),
    };
    self->rounds++;
    int status = catch_messages(self, &round, &messages);
    /* The same mistake as before is nothing new. */
    round.unchanged = round.unchanged || (status && self->errors && strcmp(self->errors, messages) == 0);
    print_round(self, &round, status, messages);
    *over = round.over;
    if (!round.unchanged) {
        free(self->errors);
        self->errors = status ? need_copy(messages) : NULL;
    }
    table_free(round.table);
    json_decref(round.rows);
    free(round.title);
    free(messages);
    return status;
}

static int work(watch *self)
{
    bool over = false;
    if (self->args->once)
        return one_round(self, &over);
    char *twin = watchtemplate_twin(self->args->file);
    const text_list files = { (const char *[]){ self->args->file, twin }, 2 };
    /* Before the first round, so that no change is missed. */
    struct watcher *watcher = watcher_open(&files, &self->args->source.includes);
    int status = STATUS_FAILED;
    if (watcher) {
        status = one_round(self, &over);
        while (!over && watcher_wait(watcher))
            status = one_round(self, &over);
        status = over ? status : STATUS_DONE;
        watcher_close(watcher);
    }
    free(twin);
    return status;
}

static int watch_file(const watch_args *args, bool is_template)
{
    watch self = { .args = args };
    screen_open(&self.screen);
    int status = is_template ? watchtemplate_open(&self.template, args) : watchsource_open(&self.source, args);
    if (!status)
        status = work(&self);
    if (self.template)
        watchtemplate_close(self.template);
    if (self.source)
        watchsource_close(self.source);
    free(self.errors);
    return status;
}

int command_watch(int argc, char **argv)
{
    watch_args args = { .file = NULL };
    text_list words = { NULL, 0 };
    bool is_template = false;
    int status = parse_args(&args, &words, argc, argv);
    if (status == OPTIONS_GO_ON) {
        args.fields = join(&words, 1);
        status = ownfiles_declares(&is_template, args.file);
        if (!status)
            status = check_kind(&args, is_template);
        if (!status)
            status = watch_file(&args, is_template);
    }
    free(args.fields);
    free(words.items);
    free(args.texts.sizes.items);
    free(args.texts.numbers.items);
    source_args_free(&args.source);
    return status;
}
