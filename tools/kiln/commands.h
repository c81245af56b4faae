/* The subcommands: each reads argv (argv[0] is its own name) and returns an exit status. */
#ifndef KILN_TOOLS_COMMANDS_H
#define KILN_TOOLS_COMMANDS_H

int command_run(int argc, char **argv);
int command_warm(int argc, char **argv);
int command_show(int argc, char **argv);
int command_build(int argc, char **argv);
int command_watch(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_sweep(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_ops(int argc, char **argv);
int command_templates(int argc, char **argv);
int command_cache(int argc, char **argv);
int command_wisdom(int argc, char **argv);
int command_doctor(int argc, char **argv);

#endif
