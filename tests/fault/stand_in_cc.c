/* A C compiler that has one answer: the shared object that KILN_STAND_IN_OBJECT names, whatever is to be compiled. For
 * tests that compile thousands of times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = from ? fopen(from, "rb") : NULL, *out = to ? fopen(to, "wb") : NULL;
    size_t length = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    return !out || length == 0 || fwrite(bytes, 1, length, out) != length || fclose(out) != 0;
}

int main(int argc, char **argv)
{
    const char *output = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0)
            return puts("cc (stand-in) 1.0") < 0;
        if (strcmp(argv[i], "-dumpmachine") == 0)
            return puts("stand-in") < 0;
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            output = argv[i + 1];
    }
    return copy(getenv("KILN_STAND_IN_OBJECT"), output);
}
