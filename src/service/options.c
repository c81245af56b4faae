#include "service/options.h"

#include "base/alloc.h"
#include "base/number.h"
#include "os/trust.h"
#include <stdlib.h>
#include <string.h>

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

/* What the environment says, if it may be asked; empty variables count as not set. */
static const char *variable(const kiln__settings *settings, const char *name)
{
    const char *value = settings->elevated ? NULL : getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The host's string, else the environment's. */
static bool choose(const kiln__settings *settings, char **out, const char *option, const char *name)
{
    const char *value = option != NULL ? option : variable(settings, name);
    *out = kiln__strdup(value);
    return value == NULL || *out != NULL;
}

static bool is_on(const kiln__settings *settings, const char *name)
{
    const char *value = variable(settings, name);
    return value != NULL && strcmp(value, "0") != 0;
}

/* $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln, else nothing. */
static char *default_cache_dir(const kiln__settings *settings)
{
    kiln__text text = { 0 };
    const char *base = variable(settings, "XDG_CACHE_HOME"), *home = variable(settings, "HOME");
    if (base != NULL && base[0] == '/')
        kiln__text_printf(&text, "%s/kiln", base);
    else if (home != NULL && home[0] == '/')
        kiln__text_printf(&text, "%s/.cache/kiln", home);
    char *path = text.failed ? NULL : kiln__strdup(kiln__text_string(&text));
    kiln__text_fini(&text);
    return path;
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

static kiln_status choose_caps(kiln__settings *out, const kiln_options *options, kiln_report *report)
{
    char *text = NULL;
    kiln_status status = KILN_OK;
    out->cache_files = options->cache_files > 0 ? options->cache_files : DEFAULT_CACHE_FILES;
    out->cache_bytes = options->cache_bytes > 0 ? options->cache_bytes : DEFAULT_CACHE_BYTES;
    if (options->cache_bytes > 0)
        return KILN_OK;
    if (!choose(out, &text, NULL, "KILN_CACHE_BYTES"))
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (text != NULL && !parse_bytes(text, &out->cache_bytes))
        status = kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                            "KILN_CACHE_BYTES is '%s': expected a number of bytes such as 500M or 4G", text);
    kiln__free(text);
    return status;
}

static kiln_status choose_isolation(kiln__settings *out, const kiln_options *options, kiln_report *report)
{
    static const struct {
        const char *name;
        kiln_isolate isolate;
    } policies[] = { { "auto", KILN_ISOLATE_AUTO },
                     { "always", KILN_ISOLATE_ALWAYS },
                     { "never", KILN_ISOLATE_NEVER } };
    const char *text = variable(out, "KILN_ISOLATE");
    out->worker_time_ms = options->worker_time_ms > 0 ? options->worker_time_ms : DEFAULT_WORKER_TIME_MS;
    out->worker_memory_bytes =
        options->worker_memory_bytes > 0 ? options->worker_memory_bytes : DEFAULT_WORKER_MEMORY_BYTES;
    if (options->isolate < KILN_ISOLATE_DEFAULT || options->isolate > KILN_ISOLATE_NEVER)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                          "kiln_options.isolate is %d: expected one of the values of kiln_isolate",
                          (int)options->isolate);
    out->isolate = options->isolate != KILN_ISOLATE_DEFAULT ? options->isolate : KILN_ISOLATE_AUTO;
    if (options->isolate != KILN_ISOLATE_DEFAULT || text == NULL)
        return KILN_OK;
    for (int i = 0; i < 3; i++) {
        out->isolate = policies[i].isolate;
        if (strcmp(text, policies[i].name) == 0)
            return KILN_OK;
    }
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "KILN_ISOLATE is '%s': expected auto, always or never",
                      text);
}

static kiln_status refuse_switch(kiln_report *report, const char *field, kiln_switch value)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                      "kiln_options.%s is %d: expected one of the values of kiln_switch", field, (int)value);
}

static kiln_status choose_wisdom(kiln__settings *out, const kiln_options *options, kiln_report *report)
{
    const char *text = variable(out, "KILN_WISDOM");
    if (options->wisdom < KILN_DEFAULT || options->wisdom > KILN_OFF)
        return refuse_switch(report, "wisdom", options->wisdom);
    out->wisdom = options->wisdom != KILN_OFF;
    if (options->wisdom != KILN_DEFAULT || text == NULL || strcmp(text, "on") == 0)
        return KILN_OK;
    out->wisdom = false;
    return strcmp(text, "off") == 0
               ? KILN_OK
               : kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "KILN_WISDOM is '%s': expected on or off", text);
}

kiln_status kiln__settings_init(kiln__settings *out, const kiln_options *options, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    if (options->strict < KILN_DEFAULT || options->strict > KILN_OFF)
        return refuse_switch(report, "strict", options->strict);
    out->elevated = kiln__trust_is_elevated();
    out->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : DEFAULT_MEMORY_BYTES;
    out->loaded_max = options->loaded_max > 0 ? options->loaded_max : DEFAULT_LOADED_MAX;
    out->lock_wait_ms = options->lock_wait_ms > 0 ? options->lock_wait_ms : DEFAULT_LOCK_WAIT_MS;
    out->log = options->log;
    out->log_data = options->log_data;
    out->log_level = options->log_level;
    out->strict = options->strict != KILN_DEFAULT ? options->strict == KILN_ON : is_on(out, "KILN_STRICT");
    out->own_cache_dir = options->cache_dir != NULL;
    bool chosen = choose(out, &out->device, options->device, "KILN_DEVICE") &&
                  choose(out, &out->cache_dir, options->cache_dir, "KILN_CACHE_DIR") &&
                  choose(out, &out->nvrtc, options->nvrtc, "KILN_NVRTC") &&
                  choose(out, &out->libcuda, options->libcuda, "KILN_LIBCUDA") &&
                  choose(out, &out->cc, options->cc, "KILN_CC") &&
                  choose(out, &out->packs, options->packs, "KILN_PACKS") &&
                  choose(out, &out->shared_dir, options->shared_dir, "KILN_SHARED_DIR") &&
                  choose(out, &out->record, options->record, "KILN_RECORD") &&
                  choose(out, &out->worker, options->worker, "KILN_WORKER") &&
                  choose(out, &out->crash_dir, options->crash_dir, "KILN_CRASH_DIR");
    if (chosen && out->cache_dir == NULL)
        chosen = (out->cache_dir = default_cache_dir(out)) != NULL;
    if (!chosen) {
        kiln__settings_fini(out);
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    }
    kiln_status status = choose_caps(out, options, report);
    if (status == KILN_OK)
        status = choose_isolation(out, options, report);
    if (status == KILN_OK)
        status = choose_wisdom(out, options, report);
    if (status != KILN_OK)
        kiln__settings_fini(out);
    return status;
}

void kiln__settings_fini(kiln__settings *settings)
{
    kiln__free(settings->device);
    kiln__free(settings->cache_dir);
    kiln__free(settings->nvrtc);
    kiln__free(settings->libcuda);
    kiln__free(settings->cc);
    kiln__free(settings->packs);
    kiln__free(settings->shared_dir);
    kiln__free(settings->record);
    kiln__free(settings->worker);
    kiln__free(settings->crash_dir);
    memset(settings, 0, sizeof(*settings));
}
