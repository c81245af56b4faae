/* kiln watch: runs a round for each change of a file, and draws it. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/words.h"
#include "commands.h"
#include "files/whole.h"
#include "text/format.h"
#include "watch/watch.h"

enum { MOST_TEXT = 64 << 20 };

static const struct usage usage = {
    "kiln watch FILE.cu [FIELD=VALUE]... [-I DIR]... [--size N|NAME=N]... [--arg NAME=VALUE]... [--once] [options]",
    "Compiles FILE.cu each time that it is saved. A user-defined template (//! template) is also checked bit for\n"
    "bit, as by kiln run --verify, and timed against the last version that was good and against a plain copy;\n"
    "the fields are those of its specs, lists included. For another file it compares the registers, stack and shared\n"
    "memory of the functions. A change of a header counts, too: below a DIR or, where the file includes \"x.h\",\n"
    "below its directory. Errors are shown in place. Ctrl-C ends it.",
    "  kiln watch hardsigmoid256.cu block=64,128,256\n"
    "  kiln watch scale.cu -I include --target sm_90\n"
    "  kiln watch transpose.cu --size rows=4096 --size cols=4096 --once --json",
};

/* Refuses options that a file of the other kind takes. */
static void check_kind(const watch_args *args)
{
    if (!args->is_template && (args->texts.sizes.count || args->texts.numbers.count))
        options_refuse(&usage, "%s declares no template, so there is nothing for --size and --arg to name", args->file);
    if (args->is_template && source_args_given(&args->source))
        options_refuse(&usage,
                       "%s declares a template: its `option` lines take the place of such options, and fields such as "
                       "block=128 vary it",
                       args->file);
}

static void parse_args(watch_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        SOURCE_ARGS_ROWS(&args->source, &args->common),
        { "target", 't', OPTION_TEXT, "NAME", "sm_90, or cpu; default the device's", &args->target },
        { "size", 's', OPTION_LIST, "N|NAME=N",
          "elements of each array, default 2^26 on a GPU, 2^22 on the cpu; or a size", &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a scalar of the op, or a number of a template", &args->texts.numbers },
        { "once", 0, OPTION_FLAG, NULL, "one round, and its exit status", &args->once },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    for (size_t i = 0; i < args->texts.sizes.count; i++) {
        const char *text = args->texts.sizes.items[i], *value = strchr(text, '=');
        uint64_t size;
        if (!parse_size(&size, value ? value + 1 : text))
            options_refuse(&usage, "--size %s is not a size; expected 1048576, 2^20, 64M or 4096x393216", text);
    }
    if (words.count == 0)
        options_refuse(&usage, "no FILE given");
    kernel_words kernel = words_kernel(&usage, &words, 0);
    if (!kernel.file)
        options_refuse(&usage, "'%s' names no FILE.cu to watch", kernel.fields);
    args->file = kernel.file;
    args->fields = kernel.fields;
    args->is_template = !kernel.is_source;
    check_kind(args);
}

/* ---- Rounds */

typedef struct watch {
    const watch_args *args;
    struct watch_template *template; /* one of the two */
    struct watch_source *source;
    bool terminal;
    size_t lines; /* on the terminal, that were drawn last */
    uint64_t rounds;
    const char *errors; /* of the round that was shown last */
    text_list beside;   /* the directory of the file, or none */
} watch;

/* Lines on a screen of this width, where a long one is broken. */
static size_t count_lines(const char *text, size_t width)
{
    size_t lines = 0;
    while (*text) {
        size_t length = strcspn(text, "\n"), columns = text_columns(text, length);
        lines += columns > width ? (columns + width - 1) / width : 1;
        text += length + (text[length] == '\n');
    }
    return lines;
}

/* Draws a text, whose last line ends, in the place of the one before. */
static void draw_text(watch *self, const char *text)
{
    struct winsize size = { .ws_row = 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
        size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
    /* Lines beyond the upper edge cannot be reached. */
    if (self->lines > 0)
        printf("\033[%zuA\r\033[J", self->lines < size.ws_row ? self->lines : size.ws_row - 1u);
    fputs(text, stdout);
    self->lines = count_lines(text, size.ws_col);
}

static void print_text(watch *self, const watch_round *round, const char *errors)
{
    struct draft text;
    draft_begin(&text);
    if (round->title)
        fprintf(text.stream, "%s\n", round->title);
    if (json_array_size(round->rows) > 0)
        table_print_within(round->table, text.stream, terminal_width(stdout));
    fputs(self->terminal ? errors : "", text.stream);
    draft_end(&text);
    if (self->terminal) {
        draw_text(self, text.text);
    } else {
        printf("%s%s", self->rounds > 1 ? "\n" : "", text.text);
        fflush(stdout);
        fputs(errors, stderr);
    }
}

static void print_round(watch *self, const watch_round *round, int status, const char *errors)
{
    if (self->args->common.json)
        json_print(json_new("file", json_text(self->args->file), "round", json_count(self->rounds), "result",
                            json_text(round->unchanged ? "unchanged"
                                      : status         ? "failed"
                                                       : "good"),
                            "rows", json_incref(round->rows), "messages", json_text(errors), NULL));
    else if (!round->unchanged)
        print_text(self, round, errors);
    else if (!self->terminal)
        printf("%s: unchanged\n", self->args->file);
    fflush(stdout);
}

/* Returns the status of the round; *over tells to end. */
static int run_round(watch *self, bool *over)
{
    struct draft messages;
    watch_round round = {
        .table = table_new(self->template ? watch_template_columns : watch_source_columns),
        .rows = json_array(),
    };
    self->rounds++;
    /* Messages of a round are drawn with it. */
    draft_begin(&messages);
    diagnostics_to(messages.stream);
    int status =
        self->template ? watch_template_round(self->template, &round) : watch_source_round(self->source, &round);
    diagnostics_to(NULL);
    draft_end(&messages);
    /* The same mistake as before is nothing new. */
    round.unchanged = round.unchanged || (status && self->errors && strcmp(self->errors, messages.text) == 0);
    print_round(self, &round, status, messages.text);
    *over = round.over;
    if (!round.unchanged)
        self->errors = status ? messages.text : NULL;
    json_decref(round.rows);
    return status;
}

/* Whether a text has an #include "x.h". */
static bool includes_beside(const char *text)
{
    for (const char *at = text; (at = strstr(at, "include"));) {
        at += strlen("include");
        if (at[strspn(at, " \t")] == '"')
            return true;
    }
    return false;
}

/* The directory of the file is watched while the file has such an include, which an edit may add or take away. */
static void choose_beside(watch *self)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = whole_open(self->args->file);
    bool wanted = stream && whole_stream(&text, &length, stream, MOST_TEXT) == 0 && includes_beside(text);
    if (stream)
        fclose(stream);
    self->beside = (text_list){ NULL, 0 };
    if (wanted)
        text_list_add(&self->beside, source_directory(self->args->file));
}

static int run_rounds(watch *self)
{
    bool over = false;
    if (self->args->once)
        return run_round(self, &over);
    const text_list files = { (const char *[]){ self->args->file, watch_template_twin(self->args->file) }, 2 };
    /* Before the first round, so that no change is missed. */
    choose_beside(self);
    struct watcher *watcher = watcher_open(&files, &self->args->source.includes, &self->beside);
    if (!watcher)
        return STATUS_FAILED;
    int status = run_round(self, &over);
    while (!over && watcher_wait(watcher)) {
        choose_beside(self);
        watcher_renew(watcher);
        status = run_round(self, &over);
    }
    watcher_close(watcher);
    return over ? status : interrupt_status();
}

int command_watch(int argc, char **argv)
{
    watch_args args = { .file = NULL };
    watch self = { .args = &args, .terminal = is_terminal(stdout) };
    parse_args(&args, argc, argv);
    int status = args.is_template ? watch_template_open(&self.template, &args) : watch_source_open(&self.source, &args);
    if (!status)
        status = run_rounds(&self);
    if (args.is_template)
        watch_template_close(self.template);
    else
        watch_source_close(self.source);
    return status;
}
