/* The fields of the frames between a service and its workers. */
#include "jit/worker/protocol.h"

#include "base/alloc.h"
#include "source/reads.h"
#include <stdio.h>
#include <string.h>

/* ---- Text that a worker sends: hostile source may have made a compiler say it */

/* A copy of at most `size` - 1 bytes without control characters but newline and tab, those of UTF-8's C1 block
 * included. */
static void copy_clean(char *out, size_t size, const char *text)
{
    size_t length = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0' && length + 1 < size; at++) {
        bool c1 = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        bool control = (at[0] < 0x20 && at[0] != '\n' && at[0] != '\t') || at[0] == 0x7F;
        out[length++] = c1 || control ? ' ' : (char)at[0];
        at += c1;
    }
    out[length] = '\0';
}

/* A clean copy of at most `most` bytes of a text that may be missing; false only where memory ran out. */
static bool copy_text(const kiln__frame *frame, kiln__worker_tag tag, size_t most, char **out)
{
    const char *text = kiln__frame_get_text(frame, (uint16_t)tag);
    size_t size = text != NULL ? strnlen(text, most) + 1 : 0;
    *out = text != NULL ? kiln__alloc(size) : NULL;
    if (*out != NULL)
        copy_clean(*out, size, text);
    return text == NULL || *out != NULL;
}

bool kiln__worker_is_identity(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+";
    return strlen(text) < KILN__ENTRY_TOOLCHAIN_SIZE && text[strspn(text, allowed)] == '\0';
}

static void put_log(kiln__text *frame, const char *log)
{
    if (log != NULL && log[0] != '\0') {
        size_t length = strnlen(log, KILN__WORKER_LOG_MAX - 1);
        char *copy = kiln__memdup(log, length);
        if (copy != NULL)
            kiln__frame_put(frame, KILN__WORKER_TAG_LOG, copy, length + 1);
        kiln__free(copy);
    }
}

/* ---- Toolchains */

void kiln__worker_put_toolchain(kiln__text *frame, const kiln__toolchain *toolchain)
{
    kiln__text targets = { 0 };
    kiln__toolchain_list_targets(toolchain, &targets);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_ID, toolchain->id);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_TOOLCHAIN_VERSION, toolchain->version);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_PATH, toolchain->path);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_TARGETS, kiln__text_string(&targets));
    frame->failed = frame->failed || targets.failed;
    kiln__text_fini(&targets);
}

static bool get_text(const kiln__frame *frame, kiln__worker_tag tag, char *out, size_t size)
{
    const char *text = kiln__frame_get_text(frame, (uint16_t)tag);
    if (text == NULL || strlen(text) >= size)
        return false;
    copy_clean(out, size, text);
    return true;
}

bool kiln__worker_get_toolchain(const kiln__frame *frame, kiln__toolchain *out)
{
    const char *targets = kiln__frame_get_text(frame, KILN__WORKER_TAG_TARGETS);
    memset(out, 0, sizeof(*out));
    return get_text(frame, KILN__WORKER_TAG_ID, out->id, sizeof(out->id)) && kiln__worker_is_identity(out->id) &&
           get_text(frame, KILN__WORKER_TAG_TOOLCHAIN_VERSION, out->version, sizeof(out->version)) &&
           get_text(frame, KILN__WORKER_TAG_PATH, out->path, sizeof(out->path)) && targets != NULL &&
           kiln__toolchain_read_targets(out, targets);
}

/* ---- Lists */

void kiln__worker_put_list(kiln__text *frame, kiln__worker_tag tag, const kiln__list *list)
{
    frame->failed = frame->failed || list->bytes.failed;
    if (list->count > 0)
        kiln__frame_put(frame, (uint16_t)tag, list->bytes.data, list->bytes.length);
}

bool kiln__worker_get_list(const kiln__frame *frame, kiln__worker_tag tag, kiln__list *out)
{
    const kiln__frame_field *field = kiln__frame_find(frame, (uint16_t)tag);
    return field == NULL || kiln__list_read(out, field->data, field->length);
}

/* ---- Units */

/* Those that only a source has, by ascending tags. */
static const struct {
    kiln__worker_tag tag;
    size_t offset;
} source_lists[] = { { KILN__WORKER_TAG_PLACES, offsetof(kiln__unit, places) },
                     { KILN__WORKER_TAG_FUNCTIONS, offsetof(kiln__unit, functions) },
                     { KILN__WORKER_TAG_HEADERS, offsetof(kiln__unit, headers) },
                     { KILN__WORKER_TAG_OPTIONS, offsetof(kiln__unit, options) },
                     { KILN__WORKER_TAG_PARTS, offsetof(kiln__unit, parts) } };
enum { SOURCE_LISTS = sizeof(source_lists) / sizeof(source_lists[0]) };

static bool get_source(const kiln__frame *frame, const char *name, kiln__unit *out)
{
    bool good = (out->name = kiln__strdup(name)) != NULL;
    out->as_source = true;
    for (size_t i = 0; i < SOURCE_LISTS && good; i++)
        good = kiln__worker_get_list(frame, source_lists[i].tag, (kiln__list *)((char *)out + source_lists[i].offset));
    return good && out->places.count % 2 == 0 && out->headers.count % 2 == 0 && out->parts.count % 2 == 0;
}

void kiln__worker_put_unit(kiln__text *frame, const kiln__unit *unit)
{
    kiln__text entries = { 0 };
    for (uint32_t i = 0; i < unit->rule.entry_count; i++)
        kiln__text_printf(&entries, "%s\n", unit->rule.entries[i].name);
    kiln__frame_put(frame, KILN__WORKER_TAG_SOURCE, unit->source, unit->source_length + 1);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_SPEC, unit->spec);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_TARGET, unit->target.name);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_ENTRIES, kiln__text_string(&entries));
    frame->failed = frame->failed || entries.failed;
    kiln__text_fini(&entries);
    for (size_t i = 0; i < SOURCE_LISTS && kiln__unit_is_source(unit); i++)
        kiln__worker_put_list(frame, source_lists[i].tag,
                              (const kiln__list *)((const char *)unit + source_lists[i].offset));
    if (kiln__unit_is_source(unit))
        kiln__frame_put_text(frame, KILN__WORKER_TAG_NAME, unit->name);
    if (unit->contracts)
        kiln__frame_put_u32(frame, KILN__WORKER_TAG_CONTRACTS, 1);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_ARGUMENTS, unit->arguments);
}

static bool get_entries(const char *text, kiln__rule *rule)
{
    while (text != NULL && text[0] != '\0') {
        size_t length = strcspn(text, "\n");
        if (rule->entry_count == KILN__ENTRIES_MAX || length >= KILN__NAME_SIZE || text[length] != '\n' ||
            !kiln__text_is_identifier(text, length))
            return false;
        memcpy(rule->entries[rule->entry_count++].name, text, length);
        text += length + 1;
    }
    return text != NULL;
}

bool kiln__worker_get_unit(const kiln__frame *frame, kiln__unit *out)
{
    uint32_t contracts = 0;
    memset(out, 0, sizeof(*out));
    out->contracts = kiln__frame_get_u32(frame, KILN__WORKER_TAG_CONTRACTS, &contracts) && contracts == 1;
    const char *target = kiln__frame_get_text(frame, KILN__WORKER_TAG_TARGET);
    out->source = (char *)kiln__frame_get_text(frame, KILN__WORKER_TAG_SOURCE);
    out->spec = (char *)kiln__frame_get_text(frame, KILN__WORKER_TAG_SPEC);
    out->arguments = (char *)kiln__frame_get_text(frame, KILN__WORKER_TAG_ARGUMENTS);
    if (out->source == NULL || out->spec == NULL || target == NULL)
        return false;
    out->source_length = strlen(out->source);
    const char *name = kiln__frame_get_text(frame, KILN__WORKER_TAG_NAME);
    if (name != NULL && !get_source(frame, name, out))
        return false;
    return kiln__target_parse(target, strlen(target), &out->target) && !kiln__target_facts(&out->target)->twin &&
           get_entries(kiln__frame_get_text(frame, KILN__WORKER_TAG_ENTRIES), &out->rule);
}

/* ---- Failures */

void kiln__worker_put_failure(kiln__text *frame, kiln_status status, const kiln_report *report)
{
    kiln__frame_put_u32(frame, KILN__WORKER_TAG_STATUS, (uint32_t)status);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_STAGE, report->stage);
    kiln__frame_put_u32(frame, KILN__WORKER_TAG_NATIVE, (uint32_t)report->native);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_MESSAGE, report->message);
    put_log(frame, report->log);
}

/* A report's stage is a static string. */
static const char *find_stage(const char *text)
{
    static const char *const stages[] = { KILN__STAGE_COMPILE, KILN__STAGE_OPEN, KILN__STAGE_STORE };
    for (size_t i = 0; text != NULL && i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(stages[i], text) == 0)
            return stages[i];
    return NULL;
}

bool kiln__worker_get_failure(const kiln__frame *frame, kiln_status *status, kiln_report *report)
{
    char line[sizeof(report->message)], *log;
    uint32_t code, native;
    const char *message = kiln__frame_get_text(frame, KILN__WORKER_TAG_MESSAGE);
    const char *stage = find_stage(kiln__frame_get_text(frame, KILN__WORKER_TAG_STAGE));
    if (message == NULL || stage == NULL || !kiln__frame_get_u32(frame, KILN__WORKER_TAG_STATUS, &code) ||
        !kiln__frame_get_u32(frame, KILN__WORKER_TAG_NATIVE, &native))
        return false;
    *status = (kiln_status)(int32_t)code;
    if (*status != KILN_ENOCOMPILER && *status != KILN_ECOMPILE && *status != KILN_ETARGET && *status != KILN_ENOMEM &&
        *status != KILN_ENOWORKER && *status != KILN_EIO && *status != KILN_ECRASHED)
        return false;
    copy_clean(line, sizeof(line), message);
    kiln__fail(report, *status, stage, (int)native, "%s", line);
    copy_text(frame, KILN__WORKER_TAG_LOG, KILN__WORKER_LOG_MAX, &log);
    kiln__report_set_log(report, log);
    kiln__free(log);
    return true;
}

/* ---- Images */

void kiln__worker_put_image(kiln__text *frame, const kiln__image *image, const kiln__toolchain *toolchain)
{
    put_log(frame, image->log);
    kiln__frame_put(frame, KILN__WORKER_TAG_CUBIN, image->binary, image->binary_length);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_PTX, image->ptx);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_ID, image->toolchain);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_TOOLCHAIN_VERSION, toolchain->version);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_ASKED, image->functions);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_NAMES, image->names);
    kiln__frame_put_text(frame, KILN__WORKER_TAG_READS, image->reads);
    kiln__frame_put_u32(frame, KILN__WORKER_TAG_UNSETTLED, image->unsettled);
}

bool kiln__worker_get_image(const kiln__frame *frame, kiln__image *out, kiln__toolchain *toolchain, bool *no_memory)
{
    const kiln__frame_field *cubin = kiln__frame_find(frame, KILN__WORKER_TAG_CUBIN);
    const char *ptx = kiln__frame_get_text(frame, KILN__WORKER_TAG_PTX);
    const char *reads = kiln__frame_get_text(frame, KILN__WORKER_TAG_READS);
    uint32_t unsettled = 0;
    *no_memory = false;
    memset(out, 0, sizeof(*out));
    if (cubin == NULL || (reads != NULL && !kiln__reads_are_sound(reads, strlen(reads))) ||
        !get_text(frame, KILN__WORKER_TAG_ID, toolchain->id, sizeof(toolchain->id)) || toolchain->id[0] == '\0' ||
        !kiln__worker_is_identity(toolchain->id) ||
        !get_text(frame, KILN__WORKER_TAG_TOOLCHAIN_VERSION, toolchain->version, sizeof(toolchain->version)))
        return false;
    kiln__frame_get_u32(frame, KILN__WORKER_TAG_UNSETTLED, &unsettled);
    out->unsettled = unsettled != 0;
    memcpy(out->toolchain, toolchain->id, sizeof(out->toolchain));
    out->binary_length = cubin->length;
    out->ptx_length = ptx != NULL ? strlen(ptx) : 0;
    out->binary = kiln__memdup(cubin->data, cubin->length);
    out->ptx = ptx != NULL ? kiln__memdup(ptx, out->ptx_length) : NULL;
    *no_memory = !copy_text(frame, KILN__WORKER_TAG_LOG, KILN__WORKER_LOG_MAX, &out->log) ||
                 !copy_text(frame, KILN__WORKER_TAG_ASKED, SIZE_MAX, &out->functions) ||
                 !copy_text(frame, KILN__WORKER_TAG_NAMES, SIZE_MAX, &out->names) ||
                 !copy_text(frame, KILN__WORKER_TAG_READS, SIZE_MAX, &out->reads) || out->binary == NULL ||
                 (ptx != NULL && out->ptx == NULL);
    if (*no_memory)
        kiln__image_fini(out);
    return !*no_memory;
}
