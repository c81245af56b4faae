/* Where options come from: the host's struct, else the environment, else the default. */
#include "base/alloc.h"
#include "base/number.h"
#include "os/trust.h"
#include "service/service.h"
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum {
    DEFAULT_MEMORY_BYTES = 64 << 20,
    DEFAULT_CACHE_FILES = 262144, /* 1,024 in each shard: looking at one takes some 2 ms */
    DEFAULT_LOADED_MAX = 4096,
    DEFAULT_LOCK_WAIT_MS = 30 * 1000,
    DEFAULT_WORKER_TIME_MS = 60 * 1000
};
/* Some 100,000 kernels; a shard's part, 16 MiB, is many times the largest of them. */
#define DEFAULT_CACHE_BYTES         ((uint64_t)4 << 30)
#define DEFAULT_WORKER_MEMORY_BYTES ((uint64_t)4 << 30)

/* The strings that the environment may give in place of the host. */
static const struct {
    size_t option; /* offset in kiln_options */
    const char *name;
} strings[] = { { offsetof(kiln_options, device), "KILN_DEVICE" },
                { offsetof(kiln_options, cache_dir), "KILN_CACHE_DIR" },
                { offsetof(kiln_options, nvrtc), "KILN_NVRTC" },
                { offsetof(kiln_options, libcuda), "KILN_LIBCUDA" },
                { offsetof(kiln_options, cc), "KILN_CC" },
                { offsetof(kiln_options, packs), "KILN_PACKS" },
                { offsetof(kiln_options, shared_dir), "KILN_SHARED_DIR" },
                { offsetof(kiln_options, record), "KILN_RECORD" },
                { offsetof(kiln_options, remote), "KILN_REMOTE" },
                { offsetof(kiln_options, remote_secret), "KILN_REMOTE_SECRET" },
                { offsetof(kiln_options, socket), "KILN_SOCKET" },
                { offsetof(kiln_options, worker), "KILN_WORKER" },
                { offsetof(kiln_options, crash_dir), "KILN_CRASH_DIR" } };

/* A variable of the environment. An empty one counts as not set. A process that runs with more rights than the user who
 * started it takes nothing from the environment. */
static const char *variable(const char *name)
{
    const char *value = kiln__trust_is_elevated() ? NULL : getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln, else "". NULL: out of memory. */
static char *default_cache_dir(void)
{
    kiln__text text = { 0 };
    const char *base = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (base != NULL && base[0] == '/')
        kiln__text_printf(&text, "%s/kiln", base);
    else if (home != NULL && home[0] == '/')
        kiln__text_printf(&text, "%s/.cache/kiln", home);
    return kiln__text_take(&text);
}

const char *kiln__options_no_cache(void)
{
    return kiln__trust_is_elevated()
               ? "a process with more rights than the user who started it does not ask the environment for one"
               : "neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a directory: set one of them, the last two "
                 "to an absolute path";
}

/* "500M", "4G" and plain numbers. */
static bool parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "kMGT";
    size_t length = strlen(text);
    const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    if (!kiln__number_parse_uint(text, length - (unit != NULL), out) || *out == 0 || *out > UINT64_MAX >> shift)
        return false;
    *out <<= shift;
    return true;
}

static kiln_status choose_cache_bytes(kiln_options *options, kiln_report *report)
{
    const char *text = options->cache_bytes == 0 ? variable("KILN_CACHE_BYTES") : NULL;
    if (options->cache_bytes == 0)
        options->cache_bytes = DEFAULT_CACHE_BYTES;
    if (text == NULL || parse_bytes(text, &options->cache_bytes))
        return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                      "KILN_CACHE_BYTES is '%s': expected a number of bytes such as 500M or 4G", text);
}

/* An option of which 0 is the default, and the words of its other values in the environment. */
typedef struct choice {
    const char *field, *type, *variable;
    const char *words[3];
    const char *expected; /* the words, for a message */
    int count;
} choice;

static const choice isolation = { "isolate",
                                  "kiln_isolate",
                                  "KILN_ISOLATE",
                                  { "auto", "always", "never" },
                                  "auto, always or never",
                                  KILN_ISOLATE_NEVER },
                    trust = { "trust",          "kiln_trust",    "KILN_TRUST", { "owner", "group" },
                              "owner or group", KILN_TRUST_GROUP },
                    trust_remote = { "trust_remote",  "kiln_switch", "KILN_TRUST_REMOTE",
                                     { "on", "off" }, "on or off",   KILN_OFF },
                    start_daemon = { "start_daemon",  "kiln_switch", "KILN_START_DAEMON",
                                     { "on", "off" }, "on or off",   KILN_OFF },
                    push = { "push", "kiln_push", NULL, { NULL }, NULL, KILN_PUSH_NONE },
                    wisdom = { "wisdom", "kiln_switch", "KILN_WISDOM", { "on", "off" }, "on or off", KILN_OFF },
                    strict = { "strict", "kiln_switch", NULL, { NULL }, NULL, KILN_OFF };

static kiln_status choose(const choice *of, int given, int usual, int *out, kiln_report *report)
{
    const char *text = of->variable != NULL && given == 0 ? variable(of->variable) : NULL;
    *out = given != 0 ? given : usual;
    if (given < 0 || given > of->count)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                          "kiln_options.%s is %d: expected one of the values of %s", of->field, given, of->type);
    if (text == NULL)
        return KILN_OK;
    for (*out = 1; *out <= of->count; ++*out)
        if (strcmp(text, of->words[*out - 1]) == 0)
            return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "%s is '%s': expected %s", of->variable, text,
                      of->expected);
}

static kiln_status choose_all(kiln_options *options, kiln_report *report)
{
    const char *text = variable("KILN_STRICT");
    int strictness, isolate, wise, trusted, remote_trusted, uploaded, started;
    kiln_status status = choose(&strict, (int)options->strict,
                                text != NULL && strcmp(text, "0") != 0 ? KILN_ON : KILN_OFF, &strictness, report);
    if (status == KILN_OK)
        status = choose_cache_bytes(options, report);
    if (status == KILN_OK)
        status = choose(&isolation, (int)options->isolate, KILN_ISOLATE_AUTO, &isolate, report);
    if (status == KILN_OK)
        status = choose(&wisdom, (int)options->wisdom, KILN_ON, &wise, report);
    if (status == KILN_OK)
        status = choose(&trust, (int)options->trust, KILN_TRUST_OWNER, &trusted, report);
    if (status == KILN_OK)
        status = choose(&trust_remote, (int)options->trust_remote, KILN_OFF, &remote_trusted, report);
    if (status == KILN_OK)
        status = choose(&push, (int)options->push, KILN_PUSH_COMPILED, &uploaded, report);
    if (status == KILN_OK)
        status = choose(&start_daemon, (int)options->start_daemon, KILN_OFF, &started, report);
    if (status != KILN_OK)
        return status;
    options->start_daemon = (kiln_switch)started;
    options->trust_remote = (kiln_switch)remote_trusted;
    options->push = (kiln_push)uploaded;
    options->trust = (kiln_trust)trusted;
    options->strict = (kiln_switch)strictness;
    options->isolate = (kiln_isolate)isolate;
    options->wisdom = (kiln_switch)wise;
    return KILN_OK;
}

/* Homes may be on several machines, and a socket is of one. A path that is too long for a socket is none. */
char *kiln__options_socket(const kiln_options *options)
{
    const char *run = variable("XDG_RUNTIME_DIR");
    struct utsname machine;
    kiln__text text = { 0 };
    if (options->socket != NULL)
        kiln__text_append(&text, options->socket);
    else if (run != NULL && run[0] == '/')
        kiln__text_printf(&text, "%s/kiln/socket", run);
    else if (options->cache_dir[0] == '/' && uname(&machine) == 0)
        kiln__text_printf(&text, "%s/daemon/%s", options->cache_dir, machine.nodename);
    if (options->socket == NULL && text.length >= KILN__DAEMON_PATH_SIZE)
        kiln__text_fini(&text);
    return kiln__text_take(&text);
}

kiln_status kiln__options_complete(kiln_options *options, char **directory, kiln_report *report)
{
    *directory = NULL;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        const char **option = (const char **)(void *)((char *)options + strings[i].option);
        if (*option == NULL)
            *option = variable(strings[i].name);
    }
    if (options->cache_dir == NULL && (options->cache_dir = *directory = default_cache_dir()) == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
#define DEFAULT(field, usual) options->field = options->field > 0 ? options->field : (usual)
    DEFAULT(cache_files, DEFAULT_CACHE_FILES);
    DEFAULT(memory_bytes, DEFAULT_MEMORY_BYTES);
    DEFAULT(loaded_max, DEFAULT_LOADED_MAX);
    DEFAULT(lock_wait_ms, DEFAULT_LOCK_WAIT_MS);
    DEFAULT(worker_time_ms, DEFAULT_WORKER_TIME_MS);
    DEFAULT(worker_memory_bytes, DEFAULT_WORKER_MEMORY_BYTES);
#undef DEFAULT
    return choose_all(options, report);
}
