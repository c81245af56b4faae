/* User-defined sources: checks, the copy in a unit, standard headers, keys and logs. */
#include "source/source.h"

#include "base/alloc.h"
#include "base/keyline.h"
#include "source/reads.h"
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { DIRECTORIES_MAX = 64, TEXT_MAX = 64 << 20 };

#define FAIL(report, ...) kiln__fail((report), KILN_EINVAL, KILN__STAGE_COMPILE, 0, __VA_ARGS__)

/* ---- Checks: a text that stands on a line of a key or of a log has no line end in it */

static bool is_line(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            return false;
    return true;
}

static kiln_status check_name(const char *name, kiln_report *report)
{
    const char *last = strrchr(name, '/');
    last = last != NULL ? last + 1 : name;
    if (last[0] == '\0' || !is_line(name) || strchr(name, '"') != NULL || strlen(last) > 255)
        return FAIL(report, "'%.60s' is no name of a source: expected that of a file", name);
    return KILN_OK;
}

static kiln_status check_define(const char *define, kiln_report *report)
{
    size_t length = strcspn(define, "=");
    size_t name = strcspn(define, "(=");
    if (!kiln__text_is_identifier(define, name) || !is_line(define) || (name < length && define[length - 1] != ')'))
        return FAIL(report, "define '%.60s' is malformed: expected NAME or NAME=VALUE", define);
    return KILN_OK;
}

/* The end of a literal that begins at `at`; NULL if it has none. */
static const char *skip_literal(const char *at)
{
    const char quote = *at++;
    while (*at != '\0' && *at != quote)
        at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
    return *at == quote ? at + 1 : NULL;
}

/* Whether a text is one expression for NVRTC, which reads it as a line: its brackets and literals end within it, and
 * nothing stands behind it. A '>' may be a comparison in parentheses. */
static bool is_expression(const char *text)
{
    enum { DEPTH_MAX = 64 };
    char open[DEPTH_MAX];
    size_t depth = 0;
    for (const char *at = text; *at != '\0';) {
        const char *round = strchr("()[]{}", *at);
        if (*at == '\'' || *at == '"') {
            if ((at = skip_literal(at)) == NULL)
                return false;
            continue;
        }
        if (strchr(";#\\", *at) != NULL)
            return false;
        if (round != NULL && strchr("([{", *at) != NULL) {
            if (depth == DEPTH_MAX)
                return false;
            open[depth++] = round[1];
        } else if (round != NULL && (depth == 0 || open[--depth] != *at)) {
            return false;
        }
        at++;
    }
    return depth == 0 && text[strspn(text, " ")] != '\0';
}

static kiln_status check_function(const char *function, kiln_report *report)
{
    if (!is_line(function) || !is_expression(function))
        return FAIL(report, "'%.60s' is no name of a function: expected such as scale, ns::scale or scale<float, 4>",
                    function);
    return KILN_OK;
}

static kiln_status check_header(const kiln_header *header, kiln_report *report)
{
    if (header->name == NULL || header->name[0] == '\0' || header->text == NULL)
        return FAIL(report, "a header has no name or no text");
    if (header->name[0] == '/' || !is_line(header->name))
        return FAIL(report, "header '%.60s' has no relative path for a name", header->name);
    return KILN_OK;
}

static kiln_status refuse_null(const char *field, kiln_report *report)
{
    return FAIL(report, "kiln_source.%s has a NULL in it, or is NULL and its count is not 0", field);
}

bool kiln__source_includes_beside(const char *text)
{
    for (const char *at = text; (at = kiln__text_next_include(at)) != NULL;)
        if (*at != '<')
            return true;
    return strstr(text, "__has_include") != NULL;
}

/* ---- Copying */

static bool has_text(const kiln__list *list, const char *text)
{
    for (const char *at = NULL; (at = kiln__list_next(list, at)) != NULL;)
        if (strcmp(at, text) == 0)
            return true;
    return false;
}

/* A function that is named twice is one. */
static kiln_status add_functions(kiln__unit *unit, const kiln_source *given, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < given->function_count && status == KILN_OK; i++) {
        const char *function = given->functions != NULL ? given->functions[i] : NULL;
        if (function == NULL)
            return refuse_null("functions", report);
        status = check_function(function, report);
        if (status == KILN_OK && !has_text(&unit->functions, function))
            kiln__list_add(&unit->functions, function);
    }
    return status;
}

static kiln_status add_options(kiln__unit *unit, const kiln_source *given, kiln_report *report)
{
    const size_t count = given->option_count;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        const char *option = given->options != NULL ? given->options[i] : NULL;
        if (option == NULL)
            return refuse_null("options", report);
        status = kiln__option_take(unit, option, i + 1 < count ? given->options[i + 1] : NULL, report);
        i += kiln__option_words(option) > 1;
    }
    return status;
}

static kiln_status add_defines(kiln__unit *unit, const kiln_source *given, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < given->define_count && status == KILN_OK; i++) {
        const char *define = given->defines != NULL ? given->defines[i] : NULL;
        status = define != NULL ? check_define(define, report) : refuse_null("defines", report);
        if (status != KILN_OK)
            break;
        kiln__text_append(&unit->options.bytes, "-D");
        kiln__list_add(&unit->options, define);
    }
    return status;
}

static kiln_status add_headers(kiln__list *list, const kiln_source *given, kiln_report *report)
{
    for (size_t i = 0; i < given->header_count; i++) {
        if (given->headers == NULL)
            return refuse_null("headers", report);
        const kiln_header *header = &given->headers[i];
        kiln_status status = check_header(header, report);
        if (status != KILN_OK)
            return status;
        kiln__list_add(list, header->name);
        kiln__list_add(list, kiln__text_skip_mark(header->text));
    }
    return KILN_OK;
}

/* Files that are linked are made of relocatable code, whether or not an option says so. */
static kiln_status add_parts(kiln__unit *unit, const kiln_source *given, kiln_report *report)
{
    if (given->part_count > KILN__READS_FILES_MAX)
        return FAIL(report, "%zu parts are too many: at most %d", given->part_count, (int)KILN__READS_FILES_MAX);
    for (size_t i = 0; i < given->part_count; i++) {
        const kiln_part *part = given->parts != NULL ? &given->parts[i] : NULL;
        if (part == NULL || part->name == NULL || part->text == NULL)
            return refuse_null("parts", report);
        kiln_status status = check_name(part->name, report);
        if (status == KILN_OK && strlen(part->text) > TEXT_MAX)
            status = FAIL(report, "the file %s has more than %d bytes", part->name, (int)TEXT_MAX);
        if (status != KILN_OK)
            return status;
        kiln__list_add(&unit->parts, part->name);
        kiln__list_add(&unit->parts, kiln__text_skip_mark(part->text));
    }
    if (given->part_count == 0 || kiln__source_linking(unit) != KILN__LINK_NONE)
        return KILN_OK;
    if (has_text(&unit->options, "-rdc=false"))
        return FAIL(report, "option '-rdc=false' contradicts several files, which are linked: leave it out");
    kiln__list_add(&unit->options, "-rdc=true");
    return KILN_OK;
}

static kiln_status copy_text(kiln__unit *unit, const kiln_source *given, kiln_report *report)
{
    if (given->text == NULL)
        return FAIL(report, "kiln_source.text must not be NULL");
    unit->source_length = given->length > 0 ? given->length : strlen(given->text);
    if (unit->source_length > TEXT_MAX)
        return FAIL(report, "the source has %zu bytes, at most %d are taken", unit->source_length, (int)TEXT_MAX);
    if (memchr(given->text, '\0', unit->source_length) != NULL)
        return FAIL(report, "the source has a NUL among its %zu bytes: is it text?", unit->source_length);
    size_t mark = unit->source_length >= strlen(KILN__TEXT_BYTE_ORDER_MARK)
                      ? (size_t)(kiln__text_skip_mark(given->text) - given->text)
                      : 0;
    unit->source_length -= mark;
    unit->source = kiln__memdup(given->text + mark, unit->source_length);
    return unit->source != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

const char *kiln__source_base_name(const char *shown)
{
    const char *slash = strrchr(shown, '/');
    return slash != NULL ? slash + 1 : shown;
}

static kiln_status copy_names(kiln__unit *out, const kiln_source *given, kiln_report *report)
{
    const char *shown = given->name != NULL ? given->name : "source.cu";
    kiln_status status = check_name(shown, report);
    if (status != KILN_OK)
        return status;
    out->shown = kiln__strdup(shown);
    out->name = kiln__strdup(kiln__source_base_name(shown));
    return out->shown != NULL && out->name != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

static kiln_status copy_lists(kiln__unit *out, const kiln_source *given, kiln_report *report)
{
    kiln_status status = add_functions(out, given, report);
    if (status == KILN_OK)
        status = add_options(out, given, report);
    if (status == KILN_OK)
        status = add_defines(out, given, report);
    if (status == KILN_OK)
        status = add_headers(&out->headers, given, report);
    if (status == KILN_OK)
        status = add_parts(out, given, report);
    if (status != KILN_OK)
        return status;
    bool failed = out->functions.bytes.failed || out->options.bytes.failed || out->headers.bytes.failed ||
                  out->parts.bytes.failed;
    return failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : KILN_OK;
}

static kiln_status copy_target(kiln__unit *unit, const char *target, kiln_report *report)
{
    if (target == NULL || strcmp(target, "native") == 0)
        return KILN_OK;
    if (!kiln__target_parse(target, strlen(target), &unit->target))
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "unknown target '%.40s': expected such as sm_90", target);
    if (kiln__target_facts(&unit->target)->twin)
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "CUDA text is compiled for GPUs only, not for the cpu: give a target such as sm_90");
    return KILN_OK;
}

kiln_status kiln__source_make(kiln__unit **out, const kiln_source *given, kiln_report *report)
{
    *out = NULL;
    if (given->include_dir_count > DIRECTORIES_MAX)
        return FAIL(report, "%zu include directories are too many: at most %d", given->include_dir_count,
                    (int)DIRECTORIES_MAX);
    if (given->cuda_headers < KILN_DEFAULT || given->cuda_headers > KILN_OFF)
        return FAIL(report, "kiln_source.cuda_headers is %d: expected one of the values of kiln_switch",
                    (int)given->cuda_headers);
    kiln__unit *unit = kiln__calloc(1, sizeof(*unit));
    if (unit == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    unit->foreign = unit->as_source = true;
    unit->cuda_headers = given->cuda_headers != KILN_OFF;
    kiln_status status = copy_names(unit, given, report);
    if (status == KILN_OK)
        status = copy_text(unit, given, report);
    if (status == KILN_OK)
        status = copy_target(unit, given->target, report);
    if (status == KILN_OK)
        status = copy_lists(unit, given, report); /* an option may name the target too */
    if (status == KILN_OK)
        *out = unit;
    else
        kiln__unit_free(unit);
    return status;
}

kiln_status kiln__source_set_target(kiln__unit *unit, const kiln__target *target)
{
    kiln__text spec = { 0 };
    kiln__text_printf(&spec, "source=%s target=%s", unit->name, target->name);
    unit->target = *target;
    kiln__free(unit->spec);
    unit->spec = kiln__text_take(&spec);
    return unit->spec != NULL ? KILN_OK : KILN_ENOMEM;
}

/* ---- Standard headers */

/* Whether Kiln's header comes before any file, for which it is in memory: CUDA's files of these names hold text that
 * NVRTC has built in or refuses. Kiln's headers of Thrust include the file themselves. */
static bool comes_first(const char *name)
{
    static const char *const names[] = { "cuda_runtime.h", "device_launch_parameters.h", "cuda.h", "cub/cub.cuh" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return strncmp(name, "thrust/", strlen("thrust/")) == 0;
}

static bool has_own(const kiln__unit *source, const char *name)
{
    const char *own = NULL, *text;
    while (kiln__list_next_pair(&source->headers, &own, &text))
        if (strcmp(own, name) == 0)
            return true;
    return false;
}

void kiln__standard_headers(const kiln__unit *source, kiln__list *out)
{
    const bool all = source->places.count == 0;
    for (const char *at = NULL; (at = kiln__list_next(&source->headers, at)) != NULL;)
        kiln__list_add(out, at);
    for (size_t i = 0; i < kiln__standard_count; i++) {
        const kiln__embedded_file *file = &kiln__standard_files[i];
        if ((!all && !comes_first(file->name)) || has_own(source, file->name))
            continue;
        kiln__list_add(out, file->name);
        kiln__list_add(out, file->text);
    }
}

const kiln__embedded_file *kiln__standard_file(const char *path)
{
    for (size_t i = 0; i < kiln__standard_count; i++)
        if (strcmp(kiln__standard_files[i].name, path) == 0 && !comes_first(path))
            return &kiln__standard_files[i];
    return NULL;
}

static char standard_id[KILN__DIGEST_HEX];
static pthread_once_t standard_id_once = PTHREAD_ONCE_INIT;

static void make_standard_id(void)
{
    uint8_t chain[KILN__DIGEST_SIZE] = { 0 };
    for (size_t i = 0; i < kiln__standard_count; i++) {
        const kiln__embedded_file *file = &kiln__standard_files[i];
        kiln__digest_fold(chain, file->name, strlen(file->name));
        kiln__digest_fold(chain, file->text, file->length);
    }
    kiln__digest_hex(standard_id, chain);
}

/* A digest of all standard headers, in hexadecimal: the same for equal headers of the same names. Made once in a
 * process. A static string. */
static const char *get_standard_id(void)
{
    pthread_once(&standard_id_once, make_standard_id);
    return standard_id;
}

/* ---- The key */

static void add_digest(kiln__text *out, const char *text, size_t length)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__digest(digest, text, length);
    kiln__digest_hex(hex, digest);
    kiln__text_printf(out, "%zu %s", length, hex);
}

static void add_lines(kiln__text *out, const char *field, const kiln__list *list)
{
    for (const char *at = kiln__list_next(list, NULL); at != NULL; at = kiln__list_next(list, at))
        kiln__text_printf(out, "%s %s\n", field, at);
}

/* One field a line, and free text only at a line's end, so that two keys never share a text. */
void kiln__source_key_text(kiln__text *out, const kiln__unit *unit, const char *options)
{
    kiln__text_printf(out, KILN__KEYLINE_SOURCE "target %s\noptions %s\nname %s\nsource ", unit->target.name, options,
                      unit->name);
    add_digest(out, unit->source, unit->source_length);
    kiln__text_append(out, "\n");
    add_lines(out, "option", &unit->options);
    add_lines(out, "function", &unit->functions);
    const char *header = NULL, *text;
    while (kiln__list_next_pair(&unit->headers, &header, &text)) {
        kiln__text_append(out, "header ");
        add_digest(out, text, strlen(text));
        kiln__text_printf(out, " %s\n", header);
    }
    for (header = NULL; kiln__list_next_pair(&unit->parts, &header, &text);) {
        kiln__text_append(out, "part ");
        add_digest(out, text, strlen(text));
        kiln__text_printf(out, " %s\n", kiln__source_base_name(header));
    }
    kiln__text_printf(out, "standard %s\nplaces", get_standard_id());
    for (header = NULL; kiln__list_next_pair(&unit->places, &header, &text);)
        kiln__text_printf(out, " %s", header);
    kiln__text_append(out, "\n");
}

kiln_status kiln__source_identify(kiln__unit *unit)
{
    kiln__text all = { 0 };
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__source_key_text(&all, unit, "");
    kiln__text_append(&all, unit->shown);
    kiln__text_append_bytes(&all, "", 1);
    for (const char *part = NULL, *text; kiln__list_next_pair(&unit->parts, &part, &text);)
        kiln__text_append_bytes(&all, part, strlen(part) + 1);
    kiln__text_append_bytes(&all, unit->places.bytes.data, unit->places.bytes.length);
    if (!all.failed) {
        kiln__digest(digest, all.data, all.length);
        kiln__digest_hex(unit->id, digest);
    }
    kiln__text_fini(&all);
    return unit->id[0] != '\0' ? KILN_OK : KILN_ENOMEM;
}

/* ---- Logs */

/* The directory of a place, found by the `length` bytes of its name; NULL if there is none. */
static const char *find_place(const kiln__unit *source, const char *name, size_t length)
{
    const char *place = NULL, *path;
    while (kiln__list_next_pair(&source->places, &place, &path))
        if (strlen(place) == length && memcmp(place, name, length) == 0)
            return path;
    return NULL;
}

/* The user's name of a file of the source: its text (0), or a part. */
static const char *shown_name(const kiln__unit *source, int file)
{
    const char *part = NULL, *text;
    while (file > 0 && kiln__list_next_pair(&source->parts, &part, &text))
        file--;
    return part != NULL ? part : source->shown != NULL ? source->shown : source->name;
}

/* The same as show_at for a path in a place. */
static size_t show_path(kiln__text *out, const kiln__unit *source, const char *at)
{
    const char *name = at + sizeof(KILN__READS_ROOT), *path = NULL;
    size_t length = strcspn(name, "/");
    if (name[length] == '/')
        path = find_place(source, name, length);
    if (path == NULL)
        return 0;
    char place[KILN__PLACE_SIZE];
    snprintf(place, sizeof(place), "%.*s", (int)length, name);
    int file = kiln__reads_file_of(place);
    const char *shown = shown_name(source, file), *known = file > 0 ? kiln__source_base_name(shown) : source->name;
    const char *text = name + length + 1;
    bool whole =
        file >= 0 && *text == '<' && strncmp(text + 1, known, strlen(known)) == 0 && text[1 + strlen(known)] == '>';
    kiln__text_append(out, whole ? shown : path);
    return (whole ? (size_t)(text - at) + strlen(known) + 2 : sizeof(KILN__READS_ROOT) + length);
}

/* Appends the text for the user in place of the text at `at`, and returns how much of that it replaces; 0: nothing. */
static size_t show_at(kiln__text *out, const kiln__unit *source, const char *at, bool at_line)
{
    static const char root[] = KILN__READS_ROOT "/";
    size_t length = strlen(source->name);
    if (strncmp(at, root, sizeof(root) - 1) == 0)
        return show_path(out, source, at);
    if (at_line && source->shown != NULL && strncmp(at, source->name, length) == 0 &&
        (at[length] == '(' || at[length] == ':')) {
        kiln__text_append(out, source->shown);
        return length;
    }
    const char *part = NULL, *text;
    while (at_line && kiln__list_next_pair(&source->parts, &part, &text)) {
        const char *name = kiln__source_base_name(part);
        length = strlen(name);
        if (strncmp(at, name, length) == 0 && at[length] == '(') {
            kiln__text_append(out, part);
            return length;
        }
    }
    return 0;
}

char *kiln__source_show_log(const kiln__unit *source, const char *log)
{
    static const char from[] = " from ";
    kiln__text out = { 0 };
    if (source->name == NULL)
        return kiln__strdup(log);
    bool at_line = true; /* or behind the words of a report, "compiling failed: ", "In file included from " */
    for (const char *at = log; *at != '\0';) {
        size_t replaced = show_at(&out, source, at, at_line);
        if (replaced == 0)
            kiln__text_append_bytes(&out, at, 1);
        at += replaced > 0 ? replaced : 1;
        at_line =
            at[-1] == '\n' || (at[-1] == ' ' && at > log + 1 && at[-2] == ':') ||
            (at - log >= (ptrdiff_t)sizeof(from) - 1 && strncmp(at - sizeof(from) + 1, from, sizeof(from) - 1) == 0);
    }
    return kiln__text_take(&out);
}
