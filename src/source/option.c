/* The options of NVRTC: those that are passed on, and why others are not. */
#include "source/source.h"

#include <string.h>

/* The values behind an option's '='. A toggle is a switch that is on without a value. */
typedef enum form { NOTHING, SWITCH, TOGGLE, NUMBER, NUMBERS, STANDARD } value_form;

static const struct {
    const char *name;
    value_form form;
} allowed[] = {
    { "std", STANDARD },
    { "use_fast_math", NOTHING },
    { "fmad", SWITCH },
    { "ftz", SWITCH },
    { "prec-div", SWITCH },
    { "prec-sqrt", SWITCH },
    { "maxrregcount", NUMBER },
    { "extra-device-vectorization", NOTHING },
    { "default-device", TOGGLE },
    { "device-int128", NOTHING },
    { "restrict", NOTHING },
    { "minimal", NOTHING },
    { "rdc", SWITCH },
    { "relocatable-device-code", SWITCH },
    { "dc", NOTHING },
    { "device-c", NOTHING },
    { "dlto", NOTHING },
    { "dlink-time-opt", NOTHING },
    { "lineinfo", NOTHING },
    { "generate-line-info", NOTHING },
    { "diag-suppress", NUMBERS },
    { "diag-warn", NUMBERS },
    { "diag-error", NUMBERS },
    { "disable-warnings", NOTHING },
    { "w", NOTHING },
};
enum { ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

#define OWN     "Kiln sets it itself, so that equal sources give equal bytes"
#define DEFINES "name macros in defines: NAME or NAME=VALUE"
#define PCH     "a precompiled header is good for one process only"
#define LINKED  "-dlto alone optimizes when it links, and -rdc=true links"
#define FILES   "it writes a file"
#define LAMBDAS "NVRTC has none of nvcc's extended lambdas; a lambda in device code needs no __device__: leave that out"

/* By name, or by the beginning where the name ends with '*'. */
static const struct {
    const char *name, *reason;
} refused[] = {
    { "I*", "name directories in include_dirs, so that what is read there becomes part of the key" },
    { "include-path", "name directories in include_dirs, so that what is read there becomes part of the key" },
    { "include", "begin the text with that #include" },
    { "pre-include", "begin the text with that #include" },
    { "D*", DEFINES },
    { "define-macro", DEFINES },
    { "U*", DEFINES },
    { "undefine-macro", DEFINES },
    { "gpu-architecture", "name it as the target" },
    { "arch", "name it as the target" },
    { "pch", PCH },
    { "create-pch", PCH },
    { "use-pch", PCH },
    { "pch-*", PCH },
    { "time", FILES },
    { "fdevice-time-trace", FILES },
    { "gen-opt-lto", LINKED },
    { "dw", LINKED },
    { "device-w", LINKED },
    { "G", "debug information holds paths of this machine; lineinfo gives line numbers to profilers" },
    { "device-debug", "debug information holds paths of this machine; lineinfo gives line numbers to profilers" },
    { "extended-lambda", LAMBDAS },
    { "expt-extended-lambda", LAMBDAS },
    { "fdevice-syntax-only", "it makes no code" },
    { "split-compile", "equal sources would no longer give equal bytes" },
    { "no-cache", OWN },
    { "no-source-include", OWN },
    { "modify-stack-limit", OWN },
    { "frandom-seed", OWN },
};
enum { REFUSED = sizeof(refused) / sizeof(refused[0]) };

static bool is_name(const char *pattern, const char *name, size_t length)
{
    size_t full = strlen(pattern);
    if (pattern[full - 1] == '*')
        return length >= full - 1 && strncmp(pattern, name, full - 1) == 0;
    return full == length && strncmp(pattern, name, length) == 0;
}

static bool is_numbers(const char *text, bool many)
{
    size_t digits = strspn(text, "0123456789");
    while (many && digits > 0 && digits < 8 && text[digits] == ',') {
        text += digits + 1;
        digits = strspn(text, "0123456789");
    }
    return digits > 0 && digits < 8 && text[digits] == '\0';
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words != NULL && strcmp(*words, text) != 0)
        words++;
    return *words != NULL;
}

/* NULL if the value is right, else the expected form. */
static const char *refuse_value(value_form form, const char *value)
{
    static const char *const switches[] = { "true", "false", NULL };
    static const char *const standards[] = { "c++11", "c++14", "c++17", "c++20", NULL };
    switch (form) {
    case NOTHING:
        return value == NULL ? NULL : "no value";
    case SWITCH:
        return value != NULL && is_one_of(value, switches) ? NULL : "=true or =false";
    case TOGGLE:
        return value == NULL || is_one_of(value, switches) ? NULL : "nothing, =true or =false";
    case NUMBER:
        return value != NULL && is_numbers(value, false) ? NULL : "=NUMBER";
    case NUMBERS:
        return value != NULL && is_numbers(value, true) ? NULL : "=NUMBER,NUMBER...";
    case STANDARD:
        break;
    }
    return value != NULL && is_one_of(value, standards) ? NULL : "=c++11, =c++14, =c++17 or =c++20";
}

static kiln_status fail(kiln_report *report, const char *option, const char *reason)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "option '%.60s' is not passed on: %s", option,
                      reason);
}

static kiln_status fail_unknown(kiln_report *report, const char *option)
{
    kiln__text list = { 0 };
    for (size_t i = 0; i < ALLOWED; i++)
        kiln__text_printf(&list, " -%s%s", allowed[i].name,
                          allowed[i].form > TOGGLE || allowed[i].form == SWITCH ? "=" : "");
    kiln_status status =
        kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                   "option '%.60s' is not one of those that are passed on:%s", option, kiln__text_string(&list));
    kiln__text_fini(&list);
    return status;
}

kiln_status kiln__option_check(const char *option, kiln_report *report)
{
    size_t dashes = strspn(option, "-");
    const char *name = option + dashes, *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    if (dashes < 1 || dashes > 2 || length == 0)
        return fail(report, option, "options begin with one '-' or two");
    for (size_t i = 0; i < ALLOWED; i++)
        if (is_name(allowed[i].name, name, length)) {
            const char *expected = refuse_value(allowed[i].form, equals != NULL ? equals + 1 : NULL);
            return expected == NULL ? KILN_OK
                                    : kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                                                 "option '%.60s' is malformed: expected %s behind -%s", option,
                                                 expected, allowed[i].name);
        }
    for (size_t i = 0; i < REFUSED; i++)
        if (is_name(refused[i].name, name, length))
            return fail(report, option, refused[i].reason);
    return fail_unknown(report, option);
}

/* Whether an option is called `name`; *value gets the text behind its '=', "" where there is none. */
static bool is_option(const char *option, const char *name, const char **value)
{
    const char *given = option + strspn(option, "-"), *rest = given + strlen(name);
    if (strncmp(given, name, strlen(name)) != 0 || (*rest != '\0' && *rest != '='))
        return false;
    *value = *rest == '=' ? rest + 1 : rest;
    return true;
}

bool kiln__option_tells_directory(const char *option)
{
    const char *value;
    return is_option(option, "lineinfo", &value) || is_option(option, "generate-line-info", &value);
}

bool kiln__option_sets_device(const char *option, bool *on)
{
    const char *value;
    bool found = is_option(option, "default-device", &value);
    if (found)
        *on = strcmp(value, "false") != 0;
    return found;
}

/* ---- Linking */

kiln__linking kiln__source_linking(const kiln__unit *unit)
{
    const char *value;
    kiln__linking out = KILN__LINK_NONE;
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;) {
        bool relocatable = is_option(at, "rdc", &value) || is_option(at, "relocatable-device-code", &value) ||
                           is_option(at, "dc", &value) || is_option(at, "device-c", &value);
        if (is_option(at, "dlto", &value) || is_option(at, "dlink-time-opt", &value))
            return KILN__LINK_OPTIMIZED;
        if (relocatable)
            out = strcmp(value, "false") != 0 ? KILN__LINK_CODE : KILN__LINK_NONE;
    }
    return out;
}

/* Of NVRTC and of nvJitLink, which has 0 and 1 for false and true. */
static const struct {
    const char *compiler, *linker;
} shared[] = { { "ftz", "-ftz" }, { "prec-div", "-prec-div" }, { "prec-sqrt", "-prec-sqrt" }, { "fmad", "-fma" } };

void kiln__source_linker_options(const kiln__unit *unit, kiln__list *out)
{
    const char *value;
    kiln__text option = { 0 };
    kiln__text_printf(&option, "-arch=%s", unit->target.name);
    kiln__list_add(out, kiln__text_string(&option));
    bool optimized = kiln__source_linking(unit) == KILN__LINK_OPTIMIZED;
    if (optimized)
        kiln__list_add(out, "-lto");
    for (const char *at = NULL; optimized && (at = kiln__list_next(&unit->options, at)) != NULL;) {
        bool fast = is_option(at, "use_fast_math", &value);
        if (is_option(at, "maxrregcount", &value)) {
            option.length = 0;
            kiln__text_printf(&option, "-maxrregcount=%s", value);
            kiln__list_add(out, kiln__text_string(&option));
        } else if (kiln__option_tells_directory(at)) {
            kiln__list_add(out, "-lineinfo");
        }
        for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
            if (fast || is_option(at, shared[i].compiler, &value)) {
                bool on = fast ? strcmp(shared[i].compiler, "ftz") == 0 || strcmp(shared[i].compiler, "fmad") == 0
                               : strcmp(value, "true") == 0;
                option.length = 0;
                kiln__text_printf(&option, "%s=%d", shared[i].linker, on);
                kiln__list_add(out, kiln__text_string(&option));
            }
    }
    out->bytes.failed = out->bytes.failed || option.failed;
    kiln__text_fini(&option);
}
