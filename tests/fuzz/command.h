/* Files of the command in fuzz targets: what it would print is checked. */
#ifndef KILN_FUZZ_COMMAND_H
#define KILN_FUZZ_COMMAND_H

/* Frees the memory that the command's files took for an input, which else lasts as long as the command. */
void command_end(void);

#endif
