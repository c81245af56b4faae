/* sandboxed NETS ALLOWED CANARY TARGET...: compiles hostile source text inside the sandbox of a compile worker.
 *
 * NETS is 0 for no sandbox, else a sum of kiln__sandbox_net; ALLOWED a path or "" for none; CANARY the path of a
 * file whose text must not come out. It is open as descriptor CANARY_FD and stands in the environment. The standard
 * input holds sources with a record separator after each. On the standard output come the records, each ended by a
 * record separator: how the sandbox was entered, what each call says of CANARY, then for each source and target how
 * it went, the log and the digest of the cubin, and at last what paths were asked for. Status 2: wrong use; 3: the
 * sandbox was not entered. */
#include "fault/sandboxed.h"
#include "base/alloc.h"
#include "base/digest.h"
#include "gpu/cuda.h"
#include "kiln-worker/sandbox.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STACK = 64 << 20, INPUT_MAX = 8 << 20 };

#if defined(__SANITIZE_ADDRESS__)
/* Inside the sandbox LeakSanitizer cannot look into the process, and fails. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static char input[INPUT_MAX + 1];
static char canary[256]; /* its text */

static void end_record(void)
{
    putchar(RECORD_END);
}

static bool read_canary(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t length = fd >= 0 ? read(fd, canary, sizeof(canary) - 1) : -1;
    if (length <= 0 || lseek(fd, 0, SEEK_SET) != 0 || dup2(fd, CANARY_FD) != CANARY_FD || close(fd) != 0)
        return false;
    canary[strcspn(canary, "\n")] = '\0';
    return setenv("CANARY", canary, 1) == 0;
}

/* ---- The calls, as the program itself makes them */

static void tell(const char *call, bool granted)
{
    printf("%s %s\n", call, granted ? "granted" : errno == ENOENT ? "ENOENT" : strerror(errno));
}

static bool closed(int fd)
{
    return fd >= 0 && close(fd) == 0;
}

static bool closed_stream(FILE *stream)
{
    return stream != NULL && fclose(stream) == 0;
}

static void try_calls(const char *path)
{
    struct stat status;
    struct stat64 status64;
    struct statx statusx;
    char out[PATH_MAX];
    tell("open", closed(open(path, O_RDONLY)));
    tell("open64", closed(open64(path, O_RDONLY)));
    tell("openat", closed(openat(AT_FDCWD, path, O_RDONLY)));
    tell("openat64", closed(openat64(AT_FDCWD, path, O_RDONLY)));
    tell("fopen", closed_stream(fopen(path, "r")));
    tell("fopen64", closed_stream(fopen64(path, "rb")));
    tell("stat", stat(path, &status) == 0);
    tell("lstat", lstat(path, &status) == 0);
    tell("fstatat", fstatat(AT_FDCWD, path, &status, 0) == 0);
    tell("stat64", stat64(path, &status64) == 0);
    tell("lstat64", lstat64(path, &status64) == 0);
    tell("fstatat64", fstatat64(AT_FDCWD, path, &status64, 0) == 0);
    tell("statx", statx(AT_FDCWD, path, 0, STATX_SIZE, &statusx) == 0);
    tell("access", access(path, R_OK) == 0);
    tell("realpath", realpath(path, out) != NULL);
    end_record();
}

/* Never granted: writing, whatever is allowed, and what is no file. */
static void try_refused(const char *path)
{
    char out[PATH_MAX];
    DIR *root = opendir("/");
    tell("opendir", root != NULL && closedir(root) == 0);
    tell("readlink", readlink("/proc/self/exe", out, sizeof(out)) > 0);
    tell("open for writing", closed(open(path, O_WRONLY)));
    tell("open to create", closed(open(path, O_RDONLY | O_CREAT, 0600)));
    tell("fopen for appending", closed_stream(fopen(path, "a")));
    tell("fopen for both", closed_stream(fopen(path, "r+")));
    tell("open of a device", closed(open("/dev/zero", O_RDONLY)));
    end_record();
}

/* ---- Compiling */

static bool holds(const char *bytes, size_t length)
{
    return bytes != NULL && memmem(bytes, length, canary, strlen(canary)) != NULL;
}

static void compile(kiln__compiler *compiler, char *source, const kiln__target *target)
{
    static char spec[] = "op=hostile";
    kiln__unit unit = { .spec = spec, .source = source, .source_length = strlen(source), .target = *target };
    kiln_report report = KILN_INIT(kiln_report);
    kiln__image image = { 0 };
    char hex[KILN__DIGEST_HEX] = "";
    kiln_status status = compiler->vtable->compile(compiler, &unit, &image, &report);
    if (status == KILN_OK) {
        uint8_t digest[KILN__DIGEST_SIZE];
        kiln__digest(digest, image.binary, image.binary_length);
        kiln__digest_hex(hex, digest);
    }
    const char *log = status == KILN_OK ? image.log : report.log;
    printf("%s %s %s\n%s\n%s", target->name, kiln_status_name(status), hex, report.message, log != NULL ? log : "");
    if (holds(image.binary, image.binary_length) || holds(image.ptx, image.ptx_length))
        printf("in the image: %s", canary);
    end_record();
    fflush(stdout);
    kiln__image_fini(&image);
    kiln_report_clear(&report);
}

static void compile_all(kiln__compiler *compiler, char **targets)
{
    char *next;
    for (char *source = input; (next = strchr(source, RECORD_END)) != NULL; source = next + 1) {
        *next = '\0';
        for (char **name = targets; *name != NULL; name++) {
            kiln__target target;
            if (kiln__target_parse(*name, strlen(*name), &target))
                compile(compiler, source, &target);
        }
    }
}

static void print_path(void *data, const char *path, bool found)
{
    (void)data;
    printf("%s %s\n", found ? "found" : "refused", path);
}

/* The input is closed then: the kernel's net does not judge what has no path, such as a pipe, and a source could
 * read it again as /dev/stdin. */
static bool read_input(void)
{
    size_t length = 0;
    ssize_t got;
    while ((got = read(0, input + length, INPUT_MAX - length)) > 0)
        length += (size_t)got;
    int nothing = open("/dev/null", O_RDONLY);
    return got == 0 && nothing >= 0 && dup2(nothing, 0) == 0 && close(nothing) == 0;
}

int main(int argc, char **argv)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    char reason[256] = "no sandbox";
    struct rlimit stack;
    if (argc < 4 || !read_input() || !read_canary(argv[3]) || getrlimit(RLIMIT_STACK, &stack) != 0)
        return 2;
    stack.rlim_cur = STACK;
    kiln__compiler *compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    if (setrlimit(RLIMIT_STACK, &stack) != 0 || compiler->vtable->open(compiler, &toolchain, &report) != KILN_OK)
        return 2;
    const char *const allowed[] = { argv[2][0] != '\0' ? argv[2] : NULL, NULL };
    unsigned nets = (unsigned)strtoul(argv[1], NULL, 10);
    if (nets != 0 && !kiln__sandbox_enter_nets(nets, allowed, reason, sizeof(reason))) {
        printf("%s", reason);
        compiler->vtable->close(compiler);
        return 3;
    }
    printf("%s", reason);
    end_record();
    try_calls(argv[3]);
    try_refused(argv[3]);
    compile_all(compiler, argv + 4);
    bool complete = kiln__sandbox_visit(print_path, NULL);
    printf("%s", complete ? "" : "and more\n");
    end_record();
    compiler->vtable->close(compiler);
    return 0;
}
