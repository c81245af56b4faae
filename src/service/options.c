#include "service/options.h"

#include "base/alloc.h"
#include "os/trust.h"
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_BYTES = 64 << 20, DEFAULT_LOCK_WAIT_MS = 30 * 1000 };

/* The host's string, else the environment's; empty environment variables count as not set. */
static bool choose(char **out, const char *option, const char *variable)
{
    const char *value = option;
    if (value == NULL && !kiln__trust_is_elevated()) {
        value = getenv(variable);
        if (value != NULL && value[0] == '\0')
            value = NULL;
    }
    *out = kiln__strdup(value);
    return value == NULL || *out != NULL;
}

/* $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln, else nothing. */
static char *default_cache_dir(void)
{
    kiln__text text = { 0 };
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (kiln__trust_is_elevated())
        return kiln__strdup("");
    if (base != NULL && base[0] == '/')
        kiln__text_printf(&text, "%s/kiln", base);
    else if (home != NULL && home[0] == '/')
        kiln__text_printf(&text, "%s/.cache/kiln", home);
    char *path = text.failed ? NULL : kiln__strdup(kiln__text_string(&text));
    kiln__text_fini(&text);
    return path;
}

kiln_status kiln__settings_init(kiln__settings *out, const kiln_options *options, kiln_report *report)
{
    kiln_options given = KILN_OPTIONS_INIT;
    memset(out, 0, sizeof(*out));
    if (options != NULL && options->size < offsetof(kiln_options, device) + sizeof(options->device))
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                          "kiln_options.size is %zu: initialise the struct with KILN_OPTIONS_INIT", options->size);
    if (options != NULL) /* a program built against an older header has a shorter struct */
        memcpy(&given, options, options->size < sizeof(given) ? options->size : sizeof(given));
    options = &given;
    out->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : DEFAULT_MEMORY_BYTES;
    out->lock_wait_ms = options->lock_wait_ms > 0 ? options->lock_wait_ms : DEFAULT_LOCK_WAIT_MS;
    out->log = options->log;
    out->log_data = options->log_data;
    out->log_level = options->log_level;
    bool chosen = choose(&out->device, options->device, "KILN_DEVICE") &&
                  choose(&out->cache_dir, options->cache_dir, "KILN_CACHE_DIR") &&
                  choose(&out->nvrtc, options->nvrtc, "KILN_NVRTC") &&
                  choose(&out->libcuda, options->libcuda, "KILN_LIBCUDA") && choose(&out->cc, options->cc, "KILN_CC");
    if (chosen && out->cache_dir == NULL)
        chosen = (out->cache_dir = default_cache_dir()) != NULL;
    if (!chosen) {
        kiln__settings_fini(out);
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    }
    return KILN_OK;
}

void kiln__settings_fini(kiln__settings *settings)
{
    kiln__free(settings->device);
    kiln__free(settings->cache_dir);
    kiln__free(settings->nvrtc);
    kiln__free(settings->libcuda);
    kiln__free(settings->cc);
    memset(settings, 0, sizeof(*settings));
}
