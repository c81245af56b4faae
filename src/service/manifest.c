/* Manifests: lines that define ops and templates, and lines that stand for specs. */
#include "service/service.h"

#include "base/alloc.h"
#include "os/fork.h"
#include <string.h>

typedef struct reader {
    kiln_service *service;
    const kiln_manifest *manifest;
    kiln_manifest_fn fn;
    void *data;
    kiln_manifest_line line;
    bool stopped;
    bool unloaded;       /* the line names a template whose file cannot be read */
    kiln_report problem; /* of the line */
} reader;

/* "all" is every target of the compiler, "native" the default device's. */
static kiln_status expand_target(void *data, const char *word, kiln__text *out, kiln_report *report)
{
    kiln_service *service = data;
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    if (strcmp(word, "native") == 0) {
        kiln_device *device;
        kiln_status status = kiln__runtime_device(service->runtime, NULL, &device, report);
        if (status == KILN_OK)
            kiln__text_append(out, device->target.name);
        return status;
    }
    kiln__toolchain toolchain;
    kiln_status status = kiln__toolchains_get(&service->builders[KILN__BACKEND_CUDA].toolchains, &toolchain, report);
    for (uint32_t i = 0; status == KILN_OK && i < toolchain.target_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? "," : "", toolchain.targets[i].name);
    return status;
}

kiln_status kiln__service_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data,
                                 kiln_report *report)
{
    return kiln__spec_expand(&service->catalog, line, expand_target, service, fn, data, report);
}

/* ---- Definitions */

/* Shows a definition as a line that another manifest may have. */
static kiln_status show_definition(reader *self, const char *kind, const char *text)
{
    kiln__text line = { 0 };
    kiln__text_printf(&line, "define %s %s", kind, text);
    if (line.failed)
        return kiln__fail_memory(&self->problem, KILN__STAGE_SPEC);
    self->line.definition = kiln__text_string(&line);
    self->stopped = self->fn(self->data, &self->line) != 0;
    self->line.definition = "";
    kiln__text_fini(&line);
    return KILN_OK;
}

static kiln_status load_template(reader *self, const char *path, const char **name)
{
    kiln_status status = kiln__service_load_template(self->service, path, name, &self->problem);
    self->unloaded = status == KILN_ENOENT || status == KILN_EIO || status == KILN_EINVAL;
    return status == KILN_OK ? show_definition(self, "template", path) : status;
}

/* A line without its word "define". */
static kiln_status define(reader *self, kiln__word line)
{
    const char *name;
    kiln__word kind = kiln__word_next(&line);
    if (kiln__word_is(kind, "template"))
        return load_template(self, line.text, &name);
    if (!kiln__word_is(kind, "op"))
        return kiln__fail(&self->problem, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                          "write define op NAME(x) = EXPRESSION, or define template FILE.cu");
    kiln_status status = kiln__service_define_op(self->service, line.text, &self->problem);
    return status == KILN_OK ? show_definition(self, "op", line.text) : status;
}

/* ---- Specs */

static int show_spec(void *data, const kiln_spec *spec)
{
    reader *self = data;
    self->line.spec = spec;
    self->stopped = self->fn(self->data, &self->line) != 0;
    self->line.spec = NULL;
    return self->stopped;
}

static bool is_path(kiln__word name)
{
    return memchr(name.text, '/', name.length) != NULL ||
           (name.length > 3 && memcmp(name.text + name.length - 3, ".cu", 3) == 0);
}

/* Loads the templates that a list names by their paths, and appends the list of names. */
static kiln_status append_templates(reader *self, kiln__word list, kiln__text *out)
{
    kiln_status status = KILN_OK;
    while (list.text != NULL && status == KILN_OK && !self->stopped) {
        kiln__word item = kiln__word_cut_item(&list);
        if (is_path(item)) {
            const char *name = "";
            char *path = kiln__memdup(item.text, item.length);
            status =
                path != NULL ? load_template(self, path, &name) : kiln__fail_memory(&self->problem, KILN__STAGE_SPEC);
            kiln__free(path);
            item = kiln__word_of(name);
        }
        kiln__text_append_bytes(out, item.text, item.length);
        kiln__text_append(out, list.text != NULL ? "," : "");
    }
    return status;
}

/* Writes the line with the names of its templates, and with the manifest's target if it names none. */
static kiln_status write_specs(reader *self, kiln__word line, kiln__text *out)
{
    const char *target = self->manifest->target;
    kiln__word name, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &name, &value, &self->problem)) == KILN_OK && name.length > 0 &&
           !self->stopped) {
        if (kiln__word_is(name, "target") && target != NULL) {
            value = value.length > 0 ? value : kiln__word_of(target);
            target = NULL;
        }
        kiln__text_append(out, out->length > 0 ? " " : "");
        kiln__text_append_bytes(out, name.text, name.length);
        kiln__text_append(out, "=");
        if (kiln__word_is(name, "template"))
            status = append_templates(self, value, out);
        else
            kiln__text_append_bytes(out, value.text, value.length);
        if (status != KILN_OK)
            return status;
    }
    if (status == KILN_OK && target != NULL)
        kiln__text_printf(out, " target=%s", target);
    return status == KILN_OK && out->failed ? kiln__fail_memory(&self->problem, KILN__STAGE_SPEC) : status;
}

static kiln_status read_specs(reader *self, kiln__word line)
{
    kiln__text text = { 0 };
    kiln_status status = write_specs(self, line, &text);
    if (status == KILN_OK && !self->stopped)
        status = kiln__service_expand(self->service, kiln__text_string(&text), show_spec, self, &self->problem);
    kiln__text_fini(&text);
    return status;
}

/* ---- Lines */

static kiln_status read_line(reader *self, kiln__word line)
{
    if (memchr(line.text, '\0', line.length) != NULL)
        return kiln__fail(&self->problem, KILN_ESPEC, KILN__STAGE_SPEC, 0, "the line has a byte 0");
    char *copy = kiln__memdup(line.text, line.length);
    if (copy == NULL)
        return kiln__fail_memory(&self->problem, KILN__STAGE_SPEC);
    kiln__word whole = { copy, line.length }, rest = whole;
    bool defines = kiln__word_is(kiln__word_next(&rest), "define");
    kiln_status status = defines ? define(self, rest) : read_specs(self, whole);
    kiln__free(copy);
    return status;
}

static int stop(void *data, const kiln_spec *spec)
{
    (void)data;
    (void)spec;
    return 1;
}

/* A line of a record may be torn, or be for another GPU. A fault of the manifest's target is not the line's. */
static kiln_status skip_line(reader *self, kiln_status status)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text line = { 0 };
    kiln_status checked = KILN_OK;
    if (self->manifest->target != NULL) {
        kiln__text_printf(&line, "target=%s", self->manifest->target);
        checked = line.failed ? kiln__fail_memory(&report, KILN__STAGE_SPEC)
                              : kiln__service_expand(self->service, kiln__text_string(&line), stop, NULL, &report);
        kiln__text_fini(&line);
    }
    if (checked != KILN_OK) {
        kiln__report_move(&self->problem, &report);
        return checked;
    }
    self->line.status = status;
    self->line.problem = self->problem.message;
    self->stopped = self->fn(self->data, &self->line) != 0;
    self->line.status = KILN_OK;
    self->line.problem = "";
    return KILN_OK;
}

static kiln_status take_line(reader *self, kiln__word line)
{
    kiln_report_clear(&self->problem);
    self->unloaded = false;
    kiln_status status = read_line(self, line);
    if (self->line.recorded && (status == KILN_ESPEC || status == KILN_EOP || self->unloaded))
        return skip_line(self, status);
    if (status != KILN_OK && status != KILN_ENOMEM)
        kiln__fail(&self->problem, status, self->problem.stage, self->problem.native, "%s:%zu: %s",
                   self->manifest->name != NULL ? self->manifest->name : "manifest", self->line.number,
                   self->problem.message);
    return status;
}

static bool begins_with(kiln__word text, const char *prefix)
{
    return text.length >= strlen(prefix) && memcmp(text.text, prefix, strlen(prefix)) == 0;
}

/* The next line without its comment. */
static kiln__word cut_line(kiln__word *text)
{
    const char *end = memchr(text->text, '\n', text->length);
    kiln__word line = { text->text, end != NULL ? (size_t)(end - text->text) : text->length };
    size_t length = line.length + (end != NULL);
    *text = (kiln__word){ text->text + length, text->length - length };
    return kiln__record_line(line);
}

kiln_status kiln__manifest_read(kiln_service *service, const kiln_manifest *manifest, kiln_manifest_fn fn, void *data,
                                kiln_report *report)
{
    kiln__word text = { manifest->text, manifest->length };
    kiln_status status = KILN_OK;
    reader self = {
        .service = service,
        .manifest = manifest,
        .fn = fn,
        .data = data,
        .line = { .size = sizeof(self.line), .definition = "", .problem = "" },
        .problem = KILN_INIT(kiln_report),
    };
    if (begins_with(text, KILN__TEXT_BYTE_ORDER_MARK))
        text = (kiln__word){ text.text + strlen(KILN__TEXT_BYTE_ORDER_MARK),
                             text.length - strlen(KILN__TEXT_BYTE_ORDER_MARK) };
    self.line.recorded = begins_with(text, KILN__RECORD_MARK);
    while (text.length > 0 && status == KILN_OK && !self.stopped) {
        kiln__word line = cut_line(&text);
        self.line.number++;
        if (line.length > 0)
            status = take_line(&self, line);
    }
    if (status != KILN_OK)
        kiln__report_move(report, &self.problem);
    kiln_report_clear(&self.problem);
    return status;
}
