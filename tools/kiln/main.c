#include <signal.h>
#include <string.h>

#include "cli/common.h"
#include "cli/nearest.h"
#include "commands.h"

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    { "run", "compute an operation on .npy files", command_run },
    { "warm", "compile kernels ahead of time, for any GPU, without one", command_warm },
    { "show", "show a kernel's source, PTX, machine code or resources", command_show },
    { "build", "compile a CUDA file of your own", command_build },
    { "watch", "compile, check and time a file again on every save", command_watch },
    { "tune", "find the fastest geometry of a kernel", command_tune },
    { "sweep", "measure every variant of a kernel, for a table or a picture", command_sweep },
    { "bench", "measure kernels against the speed of a plain copy", command_bench },
    { "plot", "draw a table of speeds that was written before", command_plot },
    { "ops", "list the operations", command_ops },
    { "templates", "list the kernel templates and their parameters", command_templates },
    { "cache", "look at, check, trim, move and empty the kernel cache", command_cache },
    { "wisdom", "look at what tuning found, explain and move it", command_wisdom },
    { "doctor", "say what was found, what is missing and what to do", command_doctor },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *command_name(const void *list, size_t index)
{
    return ((const struct command *)list)[index].name;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_overview(FILE *stream)
{
    fputs("usage: kiln COMMAND [ARGUMENT...]\n\n"
          "Turns kernel templates into specialised, cached, launchable kernels.\n\n"
          "commands:\n",
          stream);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'kiln help COMMAND' or 'kiln COMMAND --help' tells more; kiln(1) tells all.\n"
          "Try: kiln run 'op=hardsigmoid' --in x.npy --out y.npy\n",
          stream);
}

static int unknown_command(const char *name)
{
    const char *near = nearest_word(name, command_name, commands, COMMANDS);
    if (near)
        return fail(STATUS_USAGE, "unknown command '%s': did you mean %s? See kiln --help", name, near);
    return fail(STATUS_USAGE, "unknown command '%s'; see kiln --help", name);
}

static int help(int argc, char **argv)
{
    char flag[] = "--help";
    if (argc < 2) {
        print_overview(stdout);
        return STATUS_DONE;
    }
    const struct command *command = find_command(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    char *arguments[] = { argv[1], flag, NULL };
    return command->run(2, arguments);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return STATUS_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("kiln %s\n", kiln_version());
        return STATUS_DONE;
    }
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_overview(stdout);
        return STATUS_DONE;
    }
    const struct command *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(name);
}

int main(int argc, char **argv)
{
    /* A limit on file size is a write error like any other. */
    signal(SIGXFSZ, SIG_IGN);
    int status = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout))
        return fail(STATUS_FAILED, "cannot write to standard output");
    return status;
}
