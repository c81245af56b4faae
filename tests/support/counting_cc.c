/* A stand-in for the C compiler, for tests that need thousands of compiles or slow ones: it writes a line for each
 * compile to a log and copies an object that was built beforehand. Steered by the environment:
 *
 *   KILN_COUNTING_OBJECT  the object to copy; missing: the compile fails
 *   KILN_COUNTING_LOG     gets "TAG NANOSECONDS" appended for each compile that begins
 *   KILN_COUNTING_TAG     the TAG, "-" if not set
 *   KILN_COUNTING_MS      how long a compile sleeps
 *   KILN_COUNTING_SPIN_MS how long it uses the processor
 *   KILN_COUNTING_HOLD    a file: a compile goes on sleeping while it exists
 *   KILN_COUNTING_HOLD_ON only compiles whose source has this text do so */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(long ms)
{
    struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&pause, NULL);
}

static long number(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

static int source_has(const char *wanted)
{
    static char source[1 << 20];
    size_t length = fread(source, 1, sizeof(source) - 1, stdin);
    source[length] = '\0';
    return wanted == NULL || strstr(source, wanted) != NULL;
}

static void write_log(void)
{
    const char *path = getenv("KILN_COUNTING_LOG"), *tag = getenv("KILN_COUNTING_TAG");
    char line[128];
    struct timespec now;
    if (path == NULL)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length =
        snprintf(line, sizeof(line), "%.64s %lld%09ld\n", tag != NULL ? tag : "-", (long long)now.tv_sec, now.tv_nsec);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        exit(3);
    close(fd);
}

static void spin(void)
{
    clock_t end = clock() + number("KILN_COUNTING_SPIN_MS") * (CLOCKS_PER_SEC / 1000);
    while (clock() < end) {
    }
}

static int copy(const char *to)
{
    static char bytes[1 << 16];
    const char *from = getenv("KILN_COUNTING_OBJECT");
    int in = from != NULL ? open(from, O_RDONLY | O_CLOEXEC) : -1;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t count = 0;
    if (in < 0 || out < 0) {
        fprintf(stderr, "stand-in: error: no object to copy\n");
        return 1;
    }
    while ((count = read(in, bytes, sizeof(bytes))) > 0)
        if (write(out, bytes, (size_t)count) != count)
            return 1;
    return count < 0;
}

int main(int argc, char **argv)
{
    struct stat status;
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return puts("stand-in 1.0\nFree Software Foundation") < 0;
    if (argc > 1 && strcmp(argv[1], "-dumpmachine") == 0)
        return puts("stand-in-machine") < 0;
    int held = source_has(getenv("KILN_COUNTING_HOLD_ON"));
    const char *hold = getenv("KILN_COUNTING_HOLD");
    write_log();
    sleep_ms(number("KILN_COUNTING_MS"));
    spin();
    for (int i = 0; held && hold != NULL && i < 60000 && stat(hold, &status) == 0; i++)
        sleep_ms(1);
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "-o") == 0)
            return copy(argv[i + 1]);
    return 2;
}
