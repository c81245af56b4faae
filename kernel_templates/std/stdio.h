/* printf is the compiler's own. There are no files on a GPU. */
#ifndef KILN_STD_STDIO_H
#define KILN_STD_STDIO_H

#endif
