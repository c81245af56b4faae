#include "service/options.h"

#include "base/alloc.h"
#include "os/trust.h"
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_BYTES = 64 << 20 };

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

static bool is_on(const char *variable)
{
    const char *value = kiln__trust_is_elevated() ? NULL : getenv(variable);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
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
    if (options->strict < -1 || options->strict > 1)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "kiln_options.strict is %d: expected -1, 0 or 1",
                          options->strict);
    out->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : DEFAULT_MEMORY_BYTES;
    out->log = options->log;
    out->log_data = options->log_data;
    out->log_level = options->log_level;
    out->strict = options->strict != 0 ? options->strict > 0 : is_on("KILN_STRICT");
    out->own_cache_dir = options->cache_dir != NULL;
    bool chosen = choose(&out->device, options->device, "KILN_DEVICE") &&
                  choose(&out->cache_dir, options->cache_dir, "KILN_CACHE_DIR") &&
                  choose(&out->nvrtc, options->nvrtc, "KILN_NVRTC") &&
                  choose(&out->libcuda, options->libcuda, "KILN_LIBCUDA") && choose(&out->cc, options->cc, "KILN_CC") &&
                  choose(&out->record, options->record, "KILN_RECORD");
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
    kiln__free(settings->record);
    memset(settings, 0, sizeof(*settings));
}
