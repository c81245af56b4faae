/* The subcommands, in the order of kiln --help: X(name, summary). Each is a function in cmd_<name>.c that reads argv
 * (argv[0] is its name) and returns an exit status. */
#ifndef KILN_TOOLS_COMMANDS_H
#define KILN_TOOLS_COMMANDS_H

#define KILN_COMMANDS(X)                                                    \
    X(run, "compute an operation on .npy files")                            \
    X(warm, "compile kernels ahead of time, for any GPU, without one")      \
    X(show, "show a kernel's source, PTX, machine code or resources")       \
    X(build, "compile a CUDA file")                                         \
    X(watch, "compile, check and time a file again on every save")          \
    X(tune, "find the fastest geometry of a kernel")                        \
    X(sweep, "measure every variant of a kernel, for a table or a picture") \
    X(bench, "measure kernels against the speed of a plain copy")           \
    X(plot, "draw a table of speeds that was written before")               \
    X(ops, "list the operations")                                           \
    X(templates, "list the kernel templates and their parameters")          \
    X(cache, "inspect, check, trim, move and empty the kernel cache")       \
    X(wisdom, "list, explain and move the results of tuning")               \
    X(serve, "compile for all processes of this user, as a daemon")         \
    X(status, "show the figures of the daemon")                             \
    X(doctor, "check the driver, compilers, GPUs and cache, and name remedies")

#define PROTOTYPE(name, summary) int command_##name(int argc, char **argv);
KILN_COMMANDS(PROTOTYPE)
#undef PROTOTYPE

#endif
