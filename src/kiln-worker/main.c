/* kiln-worker: compiles what a service of libkiln sends it, so that a source that harms its compiler harms no more
 * than that. Started by the library, with a socket as its standard input. */
#include "base/number.h"
#include "jit/worker/protocol.h"
#include "kiln-worker/limits.h"
#include "kiln-worker/serve.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *message)
{
    fprintf(stderr, "kiln-worker: %s\n", message);
    return 2;
}

static bool parse(int argc, char **argv, kiln__server *out)
{
    uint64_t memory = 0, cpu = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *value = strcmp(argv[i], "--memory") == 0 ? &memory : strcmp(argv[i], "--cpu") == 0 ? &cpu : NULL;
        if (value == NULL || !kiln__number_parse_uint(argv[i + 1], strlen(argv[i + 1]), value))
            return false;
    }
    *out = (kiln__server){ .memory_bytes = memory, .cpu_s = (uint32_t)cpu };
    return argc % 2 == 1 && memory > 0 && cpu > 0 && cpu <= UINT32_MAX;
}

/* Ends with the host, be it in the middle of a compile, which nothing else could end. */
static void watch_host(void)
{
    struct pollfd host = { KILN__WORKER_FD, POLLRDHUP, 0 };
    while (host.revents == 0)
        poll(&host, 1, -1);
    _exit(0);
}

int main(int argc, char **argv)
{
    static kiln__server server;
    struct stat input;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("kiln-worker %s\n", kiln_version());
        return 0;
    }
    if (!parse(argc, argv, &server))
        return fail("usage: kiln-worker --memory BYTES --cpu SECONDS, or --version");
    if (fstat(KILN__WORKER_FD, &input) != 0 || !S_ISSOCK(input.st_mode))
        return fail("standard input is no socket: libkiln starts this program when it needs it");
    if (!kiln__limits_begin(server.memory_bytes))
        return fail("cannot set its limits");
    kiln__serve_open(&server);
    if (kiln__limits_start(kiln__serve, &server) != 0)
        return fail("cannot start its thread");
    watch_host();
    return 0;
}
