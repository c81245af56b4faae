/* The driver that does nothing, which the build puts beside each benchmark. */
#ifndef KILN_TESTS_BENCH_NOOP_PATH_H
#define KILN_TESTS_BENCH_NOOP_PATH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Its absolute path, which lives as long as the process. Ends the program if there is none. */
static inline const char *noop_path(void)
{
    static char path[4096];
    static const char beside[] = "noop/libcuda.so.1";
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(beside));
    if (length <= 0) {
        fprintf(stderr, "/proc/self/exe: cannot be read\n");
        exit(1);
    }
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, beside);
    return path;
}

#endif
