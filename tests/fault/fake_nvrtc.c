/* A stand-in for libnvrtc whose compile takes no time: a cubin that the stand-in driver takes, with the two entry
 * points of the elementwise template and one input, and PTX that names its maker. Source text with #error does not
 * compile, and words in it let the compiler misbehave. KILN_STAND_IN_MS in the environment makes each compile last
 * so many milliseconds, KILN_STAND_IN_WORKER_BUILD makes it another build in a worker, KILN_STAND_IN_VERSION is its
 * major version. */
#include "gpu/nvrtc_symbols.h"
#include "support/fake_image.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>

enum { ARCH = 90, CUBIN_MAX = 8192 };

/* What a source can do to its compiler: the words STAND_IN_CRASH and so on. */
typedef enum habit { GOOD, CRASH, ABORT, HANG, BUSY, DEEP, HUNGRY, LARGE, LOST, DIRTY, LIAR, HABITS } habit;
static const char *const habits[HABITS] = { "\n",
                                            "STAND_IN_CRASH",
                                            "STAND_IN_ABORT",
                                            "STAND_IN_HANG",
                                            "STAND_IN_BUSY",
                                            "STAND_IN_DEEP",
                                            "STAND_IN_HUNGRY",
                                            "STAND_IN_LARGE",
                                            "STAND_IN_LOST",
                                            "STAND_IN_DIRTY",
                                            "STAND_IN_LIAR" };

struct _nvrtcProgram {
    habit habit;
    char cubin[CUBIN_MAX], ptx[512], log[128];
    size_t cubin_length;
    bool broken;
};

/* Prototypes from the one list, so that a parameter cannot differ from what Kiln calls. */
#define EXPORTED                                           __attribute__((visibility("default")))
#define PROTOTYPE(need, name, version, result, parameters) EXPORTED result name parameters;
KILN__NVRTC_SYMBOLS(PROTOTYPE)

kiln__nvrtc_enum nvrtcVersion(int *major, int *minor)
{
    const char *version = getenv("KILN_STAND_IN_VERSION");
    *major = version != NULL ? atoi(version) : 13;
    *minor = 0;
    return KILN__NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(kiln__nvrtc_enum code)
{
    return code == KILN__NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "an error of the stand-in";
}

kiln__nvrtc_enum nvrtcGetNumSupportedArchs(int *count)
{
    *count = 1;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = ARCH;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int headers,
                                    const char *const *header_texts, const char *const *header_names)
{
    (void)name;
    (void)headers;
    (void)header_texts;
    (void)header_names;
    *program = calloc(1, sizeof(**program));
    if (*program == NULL)
        return KILN__NVRTC_ERROR_OUT_OF_MEMORY;
    (*program)->broken = strstr(source, "#error") != NULL;
    for (habit i = CRASH; i < HABITS; i++)
        if (strstr(source, habits[i]) != NULL)
            (*program)->habit = i;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcDestroyProgram(nvrtcProgram *program)
{
    free(*program);
    *program = NULL;
    return KILN__NVRTC_SUCCESS;
}

static volatile char sink;

static int recurse(int depth)
{
    volatile char room[4096];
    room[depth % 4096] = (char)depth;
    int below = sink < 2 ? recurse(depth + 1) : 0; /* always */
    sink = room[depth % 4096];
    return below + sink;
}

/* Takes memory, and touches little of it, until there is none. */
static void eat(void)
{
    enum { PIECE = 1 << 20 };
    char *piece;
    while ((piece = malloc(PIECE)) != NULL)
        *(volatile char *)piece = 1;
}

static void use_much(void)
{
    enum { MUCH = 200 << 20 };
    volatile char *memory = malloc(MUCH);
    for (size_t i = 0; memory != NULL && i < MUCH; i += 4096)
        memory[i] = 1;
    free((void *)memory);
}

static kiln__nvrtc_enum misbehave(nvrtcProgram program)
{
    const char *ms = getenv("KILN_STAND_IN_MS");
    if (ms != NULL)
        usleep((useconds_t)atoi(ms) * 1000);
    switch (program->habit) {
    case CRASH:
        raise(SIGSEGV);
        break;
    case ABORT:
        abort();
    case HANG:
        while (1)
            pause();
    case BUSY:
        while (1)
            sink++;
    case DEEP:
        return (kiln__nvrtc_enum)recurse(0);
    case HUNGRY:
        eat();
        return KILN__NVRTC_ERROR_OUT_OF_MEMORY;
    case LARGE:
        use_much();
        break;
    case LOST:
        _exit(3);
    default:
        break;
    }
    return KILN__NVRTC_SUCCESS;
}

/* LIAR: what a source that has taken over its compiler might say. */
static const char *build_id(habit which)
{
    if (which == LIAR)
        return "99999999";
    const char *other = getenv("KILN_STAND_IN_WORKER_BUILD");
    return other != NULL && strcmp(program_invocation_short_name, "kiln-worker") == 0 ? other : "1";
}

kiln__nvrtc_enum nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    static const char *const names[] = { "kiln_vector", "kiln_scalar" };
    fake_image seen;
    (void)count;
    (void)options;
    kiln__nvrtc_enum code = misbehave(program);
    if (code != KILN__NVRTC_SUCCESS)
        return code;
    if (program->broken) {
        snprintf(program->log, sizeof(program->log), "kiln.cu(1): error: #error %s\n",
                 program->habit == DIRTY ? "\033[31mred\001\177\302\233m\tend" : "directive");
        return KILN__NVRTC_ERROR_COMPILATION;
    }
    snprintf(program->log, sizeof(program->log), "kiln.cu(1): warning: made by a stand-in\n");
    snprintf(
        program->ptx, sizeof(program->ptx),
        "//\n// Compiler Build ID: CL-%s\n// Cuda compilation tools, release 13.0, V13.0.1\n"
        ".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry kiln_vector()\n.visible .entry kiln_scalar()\n",
        build_id(program->habit), ARCH);
    program->cubin_length = fake_image_make(program->cubin, sizeof(program->cubin), ARCH, names, 2, 1);
    return fake_image_read(&seen, program->cubin, ARCH, 13000);
}

kiln__nvrtc_enum nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    *size = strlen(program->ptx) + 1;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    memcpy(ptx, program->ptx, strlen(program->ptx) + 1);
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    *size = program->cubin_length;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    memcpy(cubin, program->cubin, program->cubin_length);
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1);
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcAddNameExpression(nvrtcProgram program, const char *expression)
{
    (void)program;
    (void)expression;
    return KILN__NVRTC_SUCCESS;
}

kiln__nvrtc_enum nvrtcGetLoweredName(nvrtcProgram program, const char *expression, const char **lowered)
{
    (void)program;
    *lowered = expression;
    return KILN__NVRTC_SUCCESS;
}
