/* The command `kiln`: finds the subcommand that the first argument names, and runs it. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/complete.h"
#include "cli/nearest.h"
#include "cli/options.h"
#include "commands.h"

static const struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
#define ROW(name, summary) { #name, summary, command_##name },
    KILN_COMMANDS(ROW)
#undef ROW
};

static void print_overview(FILE *stream)
{
    fputs("usage: kiln COMMAND [ARGUMENT...]\n\n"
          "Turns kernel templates into specialised, cached, launchable kernels.\n\n"
          "commands:\n",
          stream);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'kiln help COMMAND' or 'kiln COMMAND --help' tells more; kiln(1) tells all.\n"
          "Try: kiln run 'op=hardsigmoid' --in x.npy --out y.npy\n",
          stream);
}

static int run_command(int argc, char **argv)
{
    const char *name = argv[0];
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc, argv);
    const char *near = nearest_word(name, commands, COUNT_OF(commands), sizeof(commands[0]));
    if (near)
        return fail(STATUS_USAGE, "unknown command '%s': did you mean %s? See kiln --help", name, near);
    return fail(STATUS_USAGE, "unknown command '%s'; see kiln --help", name);
}

/* Options may stand before the command. They are moved behind its name, and the command reads them. */
static int run_behind_options(int argc, char **argv)
{
    int at = options_before(argc, argv);
    if (at >= argc)
        return fail(STATUS_USAGE, "no command after %s; see kiln --help", argv[argc - 1]);
    char *name = argv[at];
    memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof(*argv));
    argv[1] = name;
    return run_command(argc - 1, argv + 1);
}

/* kiln complete WORD... LAST, which a shell runs; see cli/complete.h. */
static int complete_words(int argc, char **argv)
{
    complete_begin(argc > 0 ? argv[argc - 1] : "");
    bool help = argc > 1 && strcmp(argv[0], "help") == 0;
    if (argc > 1 && !help)
        return run_command(argc, argv);
    for (size_t i = 0; i < COUNT_OF(commands) && argc <= 2; i++)
        complete_word(commands[i].name, commands[i].summary);
    if (!help) {
        complete_word("help", "tell how to use a command");
        complete_word("--help", "list the commands");
        complete_word("--version", "print the version");
    }
    return STATUS_DONE;
}

static int dispatch(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    bool help = strcmp(name, "help") == 0;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("kiln %s\n", kiln_version());
    } else if (argc < 2) {
        print_overview(stderr);
        return STATUS_USAGE;
    } else if (strcmp(name, "complete") == 0) {
        return complete_words(argc - 2, argv + 2);
    } else if (help && argc > 2) {
        char flag[] = "--help";
        char *arguments[] = { argv[2], flag, NULL };
        return run_command(2, arguments);
    } else if (help || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_overview(stdout);
    } else {
        return run_behind_options(argc, argv);
    }
    return STATUS_DONE;
}

int main(int argc, char **argv)
{
    /* A limit on file size is a write error like any other. */
    signal(SIGXFSZ, SIG_IGN);
    json_set_alloc_funcs(need_alloc, free);
    finish(dispatch(argc, argv));
}
