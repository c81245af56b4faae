/* The options of a CUDA compiler: those that NVRTC gets, those that are left out, and the reasons to refuse others. */
#include "spec/option.h"

#include <string.h>

/* The values of an option: behind a '=', behind a blank, or the next text. A toggle is a switch that is on without a
 * value, and has one behind a '=' only. */
typedef enum form { NOTHING, SWITCH, TOGGLE, ON, NUMBER, NUMBERS, STANDARD, TARGET, ANY } value_form;

#define LEFT_OUT NULL
#define DEBUG    "the kernels are not optimized, which makes them many times slower; -lineinfo gives line numbers alone"
#define OPTIMIZE "NVRTC always optimizes, except with -G"
#define RELAXED  "functions without annotation, constexpr ones too, are device functions in any case"
#define LAMBDAS  "NVRTC has none of nvcc's extended lambdas; a lambda in device code needs no __device__: leave it out"
#define HOST     "there is no host compiler"
#define LIBRARY  "nothing is linked but device code"
#define SHOWN    "kiln show --resources and kiln_kernel_get_info tell the resources of each kernel"

/* Both spellings of an option are passed on as one, so that they have one key. */
static const struct {
    const char *name;   /* without dashes, of which there may be one or two */
    const char *passed; /* to NVRTC, in front of the value; LEFT_OUT: nothing */
    value_form form;
    const char *note; /* what the user should know, or NULL */
} taken[] = {
    { "std", "--std", STANDARD, NULL },
    { "use_fast_math", "--use_fast_math", NOTHING, NULL },
    { "fmad", "--fmad", SWITCH, NULL },
    { "ftz", "--ftz", SWITCH, NULL },
    { "prec-div", "--prec-div", SWITCH, NULL },
    { "prec-sqrt", "--prec-sqrt", SWITCH, NULL },
    { "maxrregcount", "--maxrregcount", NUMBER, NULL },
    { "extra-device-vectorization", "--extra-device-vectorization", NOTHING, NULL },
    { "default-device", "-default-device", TOGGLE, NULL },
    { "device-as-default-execution-space", "-default-device", TOGGLE, NULL },
    { "device-int128", "--device-int128", NOTHING, NULL },
    { "restrict", "--restrict", NOTHING, NULL },
    { "minimal", "--minimal", NOTHING, NULL },
    { "rdc", "-rdc", SWITCH, NULL },
    { "relocatable-device-code", "-rdc", SWITCH, NULL },
    { "dc", "-rdc=true", NOTHING, NULL },
    { "device-c", "-rdc=true", NOTHING, NULL },
    { "dlto", "-dlto", NOTHING, NULL },
    { "dlink-time-opt", "-dlto", NOTHING, NULL },
    { "lineinfo", "-lineinfo", NOTHING, NULL },
    { "generate-line-info", "-lineinfo", NOTHING, NULL },
    { "G", "-G", NOTHING, DEBUG },
    { "device-debug", "-G", NOTHING, DEBUG },
    { "dopt", "--dopt", ON, NULL },
    { "diag-suppress", "--diag-suppress", NUMBERS, NULL },
    { "diag-warn", "--diag-warn", NUMBERS, NULL },
    { "diag-error", "--diag-error", NUMBERS, NULL },
    { "w", "-w", NOTHING, NULL },
    { "disable-warnings", "-w", NOTHING, NULL },
    { "arch", LEFT_OUT, TARGET, NULL },
    { "gpu-architecture", LEFT_OUT, TARGET, NULL },
    /* Of nvcc alone */
    { "O0", LEFT_OUT, NOTHING, OPTIMIZE },
    { "O1", LEFT_OUT, NOTHING, OPTIMIZE },
    { "O2", LEFT_OUT, NOTHING, OPTIMIZE },
    { "O3", LEFT_OUT, NOTHING, OPTIMIZE },
    { "expt-relaxed-constexpr", LEFT_OUT, NOTHING, RELAXED },
    { "extended-lambda", LEFT_OUT, NOTHING, LAMBDAS },
    { "expt-extended-lambda", LEFT_OUT, NOTHING, LAMBDAS },
    { "Xcompiler", LEFT_OUT, ANY, HOST },
    { "compiler-options", LEFT_OUT, ANY, HOST },
    { "ccbin", LEFT_OUT, ANY, HOST },
    { "compiler-bindir", LEFT_OUT, ANY, HOST },
    { "allow-unsupported-compiler", LEFT_OUT, NOTHING, HOST },
    { "g", LEFT_OUT, NOTHING, HOST },
    { "m64", LEFT_OUT, NOTHING, HOST },
    { "cudart", LEFT_OUT, ANY, LIBRARY },
    { "resource-usage", LEFT_OUT, NOTHING, SHOWN },
    { "res-usage", LEFT_OUT, NOTHING, SHOWN },
};
enum { TAKEN = sizeof(taken) / sizeof(taken[0]) };

#define OWN     "Kiln sets it itself, so that equal sources give equal bytes"
#define DEFINES "name macros in defines: NAME or NAME=VALUE"
#define PCH     "a precompiled header is good for one process only"
#define LINKED  "-dlto alone optimizes when it links, and -rdc=true links"
#define FILES   "it writes a file"

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
    { "pch", PCH },
    { "create-pch", PCH },
    { "use-pch", PCH },
    { "pch-*", PCH },
    { "time", FILES },
    { "fdevice-time-trace", FILES },
    { "gencode", "name the target: one for each compile" },
    { "generate-code", "name the target: one for each compile" },
    { "Xptxas", "the assembler's options are not taken; --maxrregcount is one of the compiler's" },
    { "ptxas-options", "the assembler's options are not taken; --maxrregcount is one of the compiler's" },
    { "gen-opt-lto", LINKED },
    { "dw", LINKED },
    { "device-w", LINKED },
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
    static const char *const switches[] = { "true", "false", NULL }, *const on[] = { "on", NULL };
    static const char *const standards[] = { "c++11", "c++14", "c++17", "c++20", NULL };
    switch (form) {
    case NOTHING:
        return value == NULL ? NULL : "no value";
    case SWITCH:
        return value != NULL && is_one_of(value, switches) ? NULL : "=true or =false";
    case TOGGLE:
        return value == NULL || is_one_of(value, switches) ? NULL : "nothing, =true or =false";
    case ON:
        return value != NULL && is_one_of(value, on) ? NULL : "=on";
    case NUMBER:
        return value != NULL && is_numbers(value, false) ? NULL : "=NUMBER";
    case NUMBERS:
        return value != NULL && is_numbers(value, true) ? NULL : "=NUMBER,NUMBER...";
    case TARGET:
        return value != NULL && (strncmp(value, "sm_", 3) == 0 || strcmp(value, "native") == 0) ? NULL
                                                                                                : "such as =sm_90";
    case ANY:
        return value != NULL ? NULL : "a value";
    case STANDARD:
        break;
    }
    return value != NULL && is_one_of(value, standards) ? NULL : "=c++11, =c++14, =c++17 or =c++20";
}

static kiln_status fail(kiln_report *report, const char *option, const char *reason)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "option '%.60s' is not taken: %s", option, reason);
}

/* A text of options, taken apart. */
typedef struct words {
    const char *name, *value; /* NULL: the text has none */
    size_t length;            /* of the name */
    size_t row;               /* of `taken`, TAKEN where it is no row's */
} words;

/* The value stands behind a '=' or a blank. */
static words split_option(const char *option)
{
    words out = { .name = option + strspn(option, "-") };
    out.length = strcspn(out.name, "= ");
    if (out.name[out.length] != '\0')
        out.value = out.name + out.length + 1 + strspn(out.name + out.length + 1, " ");
    if (out.name - option < 1 || out.name - option > 2)
        out.length = 0;
    while (out.row < TAKEN && !is_name(taken[out.row].name, out.name, out.length))
        out.row++;
    return out;
}

/* Why an option is refused, NULL where it is not known at all. */
static const char *find_reason(const words *option)
{
    for (size_t i = 0; i < REFUSED; i++)
        if (is_name(refused[i].name, option->name, option->length))
            return refused[i].reason;
    return NULL;
}

static bool needs_value(value_form form)
{
    return form != NOTHING && form != TOGGLE;
}

static kiln_status fail_unknown(kiln_report *report, const char *option)
{
    kiln__text list = { 0 };
    for (size_t i = 0; i < TAKEN; i++)
        if (taken[i].passed != LEFT_OUT)
            kiln__text_printf(&list, " -%s%s", taken[i].name, needs_value(taken[i].form) ? "=" : "");
    kiln_status status =
        kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                   "option '%.60s' is not one of those that are passed on:%s", option, kiln__text_string(&list));
    kiln__text_fini(&list);
    return status;
}

unsigned kiln__option_words(const char *option)
{
    const words split = split_option(option);
    if (split.length == 0 || split.row == TAKEN)
        return 0;
    return 1 + (split.value == NULL && needs_value(taken[split.row].form));
}

/* An architecture is another word for the target. */
static kiln_status take_target(kiln__unit *unit, const char *option, const char *name, kiln_report *report)
{
    kiln__target target;
    if (strcmp(name, "native") == 0)
        return KILN_OK;
    if (!kiln__target_parse(name, strlen(name), &target))
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "unknown target '%.40s' in option '%.60s': expected such as sm_90", name, option);
    if (unit->target.name[0] != '\0' && strcmp(unit->target.name, target.name) != 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                          "option '%.60s' names %s and the target is %s: name one", option, target.name,
                          unit->target.name);
    unit->target = target;
    return KILN_OK;
}

kiln_status kiln__option_take(kiln__unit *unit, const char *option, const char *next, kiln_report *report)
{
    const words split = split_option(option);
    if (split.length == 0)
        return fail(report, option, "options begin with one '-' or two");
    const char *reason = split.row == TAKEN ? find_reason(&split) : NULL;
    if (split.row == TAKEN)
        return reason != NULL ? fail(report, option, reason) : fail_unknown(report, option);
    const value_form form = taken[split.row].form;
    const char *value = split.value != NULL || !needs_value(form) ? split.value : next;
    const char *passed = taken[split.row].passed, *note = taken[split.row].note;
    const char *expected = refuse_value(form, value);
    if (expected != NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                          "option '%.60s' is malformed: expected %s behind -%s", option, expected,
                          taken[split.row].name);
    if (note != NULL)
        kiln__text_printf(&unit->notes, "option %.60s%s: %s\n", option, passed == LEFT_OUT ? " is left out" : "", note);
    if (form == TARGET)
        return take_target(unit, option, value, report);
    kiln__text text = { 0 };
    if (passed != LEFT_OUT) {
        kiln__text_printf(&text, "%s%s%s", passed, value != NULL ? "=" : "", value != NULL ? value : "");
        kiln__list_add(&unit->options, kiln__text_string(&text));
    }
    unit->options.bytes.failed = unit->options.bytes.failed || text.failed || unit->notes.failed;
    kiln__text_fini(&text);
    return KILN_OK;
}

bool kiln__option_is(const char *option, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(option, name, length) != 0 || (option[length] != '\0' && option[length] != '='))
        return false;
    *value = option + length + (option[length] == '=');
    return true;
}

bool kiln__option_same(const char *one, const char *other)
{
    one += strspn(one, "-");
    other += strspn(other, "-");
    size_t length = strcspn(one, "=");
    return length == strcspn(other, "=") && strncmp(one, other, length) == 0;
}

bool kiln__option_tells_directory(const char *option)
{
    const char *value;
    return kiln__option_is(option, "-lineinfo", &value) || kiln__option_is(option, "-G", &value);
}

bool kiln__option_sets_device(const char *option, bool *on)
{
    const char *value;
    bool found = kiln__option_is(option, "-default-device", &value);
    if (found)
        *on = strcmp(value, "false") != 0;
    return found;
}
