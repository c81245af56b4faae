/* The public functions of <kiln/kernel.h>: specs, requests, kernels and their launches, queues, ops, templates and
 * manifests. */
#include "api/structs.h"
#include "base/alloc.h"
#include "lang/real.h"
#include "service/launch.h"
#include "service/queue.h"
#include "spec/signature.h"
#include "spec/spec.h"
#include <string.h>

/* ---- Specs. They use the catalog alone, and so does a forked child. */

kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text, kiln_report *report)
{
    kiln__report_begin(report);
    KILN__REQUIRE_OUT(report, KILN__STAGE_SPEC, out);
    KILN__REQUIRE(report, KILN__STAGE_SPEC, service != NULL && text != NULL, "service and text must not be NULL");
    return kiln__spec_parse(out, &service->catalog, text, report);
}

kiln_status kiln_spec_with(kiln_spec **out, const kiln_spec *spec, const char *fields, kiln_report *report)
{
    kiln__report_begin(report);
    KILN__REQUIRE_OUT(report, KILN__STAGE_SPEC, out);
    KILN__REQUIRE(report, KILN__STAGE_SPEC, spec != NULL && fields != NULL, "spec and fields must not be NULL");
    return kiln__spec_with(out, spec, fields, report);
}

const char *kiln_spec_text(const kiln_spec *spec)
{
    return spec != NULL ? spec->text : "";
}

const char *kiln_spec_field(const kiln_spec *spec, const char *field)
{
    if (spec == NULL || field == NULL)
        return NULL;
    int id = kiln__fields_find(spec->fields.template, (kiln__word){ field, strlen(field) });
    return id >= 0 ? spec->values[id] : NULL;
}

kiln_status kiln_spec_signature(const kiln_signature **out, const kiln_spec *spec, kiln_report *report)
{
    kiln__report_begin(report);
    KILN__REQUIRE_OUT(report, KILN__STAGE_SPEC, out);
    KILN__REQUIRE(report, KILN__STAGE_SPEC, spec != NULL, "spec must not be NULL");
    *out = kiln__spec_signature(spec);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

void kiln_spec_free(kiln_spec *spec)
{
    kiln__spec_release(spec);
}

kiln_status kiln_spec_source(char **out, const kiln_spec *spec, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_SPEC, kiln__service_of(spec), spec != NULL, "spec must not be NULL");
    kiln__unit *unit;
    kiln_status status = kiln__service_unit(kiln__service_of(spec), NULL, &spec->fields, &unit, report);
    if (status == KILN_OK) {
        *out = unit->source;
        unit->source = NULL;
    }
    kiln__unit_free(unit);
    return status;
}

kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_SPEC, service != NULL && line != NULL && fn != NULL,
                  "service, line and fn must not be NULL");
    return kiln__service_expand(service, line, fn, data, report);
}

kiln_status kiln_signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                 const uint64_t *sizes, size_t size_count, kiln_report *report)
{
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_LAUNCH, out != NULL && signature != NULL, "out and signature must not be NULL");
    return kiln__signature_shape(out, signature, index, sizes, size_count, report);
}

/* ---- Requests and programs */

/* KILN_EINVAL unless a complete request asks for one thing, in a way that there is. */
static kiln_status check_request(const kiln_request *request, kiln_report *report)
{
    KILN__REQUIRE(report, KILN__STAGE_COMPILE, (request->spec == NULL) != (request->source == NULL),
                  "a kiln_request has either a spec or a source");
    KILN__REQUIRE(report, KILN__STAGE_COMPILE, request->goal == KILN_LOAD || request->goal == KILN_BUILD,
                  "kiln_request.goal is KILN_LOAD or KILN_BUILD");
    KILN__REQUIRE(report, KILN__STAGE_COMPILE, request->strict >= KILN_DEFAULT && request->strict <= KILN_OFF,
                  "kiln_request.strict is KILN_DEFAULT, KILN_ON or KILN_OFF");
    return KILN_OK;
}

/* Completes a request, and the source that it names from then on. */
static kiln_status take_request(kiln_request *full, kiln_source *source, const kiln_request *request,
                                kiln_report *report)
{
    *full = (kiln_request)KILN_INIT(kiln_request);
    *source = (kiln_source)KILN_INIT(kiln_source);
    kiln_status status = kiln__take_in(full, sizeof(*full), request, "kiln_request", KILN__STAGE_COMPILE, report);
    if (status == KILN_OK)
        status = check_request(full, report);
    if (status == KILN_OK && full->source != NULL) {
        status = kiln__take_in(source, sizeof(*source), full->source, "kiln_source", KILN__STAGE_COMPILE, report);
        full->source = source;
    }
    return status;
}

kiln_status kiln_get(kiln_program **out, kiln_service *service, const kiln_request *request, kiln_report *report)
{
    KILN__BEGIN_OUT(out, report, KILN__STAGE_COMPILE, service, service != NULL && request != NULL,
                    "service and request must not be NULL");
    kiln_request full;
    kiln_source source;
    kiln_status status = take_request(&full, &source, request, report);
    return status == KILN_OK ? kiln__get(out, service, &full, false, NULL, report) : status;
}

kiln_status kiln_kept(kiln_service *service, const kiln_request *request, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_STORE, service, service != NULL && request != NULL,
                "service and request must not be NULL");
    kiln_request full;
    kiln_source source;
    kiln_status status = take_request(&full, &source, request, report);
    return status == KILN_OK ? kiln__service_kept(service, &full, report) : status;
}

void kiln_program_release(kiln_program *program)
{
    KILN__NO_CANCEL;
    if (program != NULL && !kiln__is_forked(program->generation))
        kiln__program_release(program);
}

kiln_status kiln_program_get_info(const kiln_program *program, kiln_program_info *out)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(NULL, KILN__STAGE_LOAD, program, program != NULL && out != NULL, "");
    kiln_program_info full = KILN_INIT(kiln_program_info);
    kiln_status status = kiln__program_info(program, &full);
    return status == KILN_OK ? kiln__hand_out(out, &full, sizeof(full)) : status;
}

kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_LOAD, program, program != NULL, "program must not be NULL");
    return kiln__program_kernel(out, program, name, report);
}

kiln_status kiln_program_global(void **out, size_t *bytes, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_LOAD, program, program != NULL && name != NULL,
                    "program and name must not be NULL");
    size_t size = 0;
    return kiln__program_global(out, bytes != NULL ? bytes : &size, program, name, report);
}

kiln_status kiln_program_section(const void **out, size_t *length, const kiln_program *program, const char *name)
{
    if (out == NULL || length == NULL || program == NULL || name == NULL)
        return KILN_EINVAL;
    *out = NULL;
    *length = 0;
    return kiln__program_section(out, length, program, name);
}

/* ---- Kernels */

kiln_status kiln_get_kernel(kiln_kernel **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    KILN__BEGIN_OUT(out, report, KILN__STAGE_SPEC, service, service != NULL && spec != NULL,
                    "service and spec must not be NULL");
    const kiln_request request = { .spec = spec };
    kiln_program *program;
    kiln_status status = kiln__get(&program, service, &request, false, NULL, report);
    if (status == KILN_OK)
        *out = program->kernels;
    return status;
}

kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel)
{
    return kiln__kernel_retain(kernel);
}

void kiln_kernel_release(kiln_kernel *kernel)
{
    if (kernel != NULL && !kiln__is_forked(kernel->generation))
        kiln__kernel_release(kernel);
}

kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out)
{
    KILN__BEGIN(NULL, KILN__STAGE_LOAD, kernel, kernel != NULL && out != NULL, "");
    kiln_kernel_info full = KILN_INIT(kiln_kernel_info);
    kiln__kernel_info(kernel, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_kernel_occupancy(int *out, const kiln_kernel *kernel, uint32_t threads, uint32_t shared_bytes,
                                  kiln_report *report)
{
    kiln__report_begin(report);
    KILN__REQUIRE(report, KILN__STAGE_LAUNCH, out != NULL && kernel != NULL && threads > 0 && threads <= INT32_MAX,
                  "out and kernel must not be NULL and threads must be at least 1");
    *out = -1;
    if (kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_LAUNCH);
    if (kernel->vtable->functions == NULL)
        return KILN_OK;
    return kernel->vtable->functions->occupancy(kernel->module, kernel->function->number, threads, shared_bytes, out,
                                                report);
}

kiln_status kiln_launch(kiln_kernel *kernel, const kiln_grid *grid, const uint64_t *sizes, size_t size_count,
                        const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report)
{
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, kernel,
                kernel != NULL && (sizes != NULL || size_count == 0) && (args != NULL || arg_count == 0),
                "kernel, sizes and args must not be NULL");
    if (kernel->plan != NULL && grid == NULL)
        return kiln__kernel_launch(kernel, sizes, size_count, args, arg_count, stream, report);
    kiln_grid full;
    kiln_status status = kiln__take_grid(&full, kernel, grid, size_count, report);
    return status == KILN_OK ? kiln__kernel_launch_grid(kernel, &full, args, arg_count, stream, report) : status;
}

kiln_status kiln_launch_n(kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count, const void *const *ins,
                          size_t in_count, void *stream, kiln_report *report)
{
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, kernel, kernel != NULL, "kernel must not be NULL");
    return kiln__kernel_launch_n(kernel, n, outs, out_count, ins, in_count, stream, report);
}

kiln_status kiln_call(kiln_service *service, const char *spec, uint64_t n, void *const *outs, size_t out_count,
                      const void *const *ins, size_t in_count, void *stream, kiln_report *report)
{
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, service, service != NULL && spec != NULL,
                "service and spec must not be NULL");
    kiln_kernel *kernel;
    /* With n = 0 nothing is launched, so a capture of the stream does not matter. */
    kiln_status status = kiln__get_text(&kernel, service, spec, n > 0 ? &stream : NULL, report);
    if (status == KILN_OK && n > 0)
        status = kiln__kernel_launch_n(kernel, n, outs, out_count, ins, in_count, stream, report);
    kiln__kernel_release(kernel);
    return status;
}

/* ---- Queues */

kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_OPEN, service, service != NULL, "service must not be NULL");
    return kiln__queue_open(out, service, report);
}

kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_OPEN, queue, queue != NULL && loop != NULL, "queue and loop must not be NULL");
    return kiln__queue_attach_uv(queue, loop, report);
}

int kiln_queue_fd(const kiln_queue *queue)
{
    return queue != NULL && !kiln__is_forked(queue->generation) ? queue->fd : -1;
}

int kiln_queue_wait(kiln_queue *queue, int timeout_ms)
{
    if (queue == NULL || kiln__is_forked(queue->generation))
        return 0;
    return timeout_ms == 0 ? kiln__queue_dispatch(queue) : kiln__queue_wait(queue, timeout_ms);
}

void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data)
{
    KILN__NO_CANCEL;
    if (queue != NULL && !kiln__is_forked(queue->generation))
        kiln__queue_close(queue, fn, data);
}

kiln_status kiln_submit(kiln_ticket *out, kiln_queue *queue, const kiln_request *request,
                        const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out != NULL)
        *out = 0;
    KILN__BEGIN(report, KILN__STAGE_COMPILE, queue, queue != NULL && request != NULL && done != NULL,
                "queue, request and done must not be NULL");
    kiln_request full;
    kiln_source source;
    kiln_submit_options how = KILN_INIT(kiln_submit_options);
    kiln_status status = take_request(&full, &source, request, report);
    if (status == KILN_OK)
        status = kiln__take_in(&how, sizeof(how), options, "kiln_submit_options", KILN__STAGE_COMPILE, report);
    return status == KILN_OK ? kiln__queue_submit(out, queue, &full, false, &how, done, data, report) : status;
}

void kiln_cancel(kiln_queue *queue, kiln_ticket ticket)
{
    KILN__NO_CANCEL;
    if (queue != NULL && !kiln__is_forked(queue->generation))
        kiln__queue_cancel(queue, ticket);
}

/* ---- Ops and templates */

kiln_status kiln_ops(kiln_service *service, kiln_op_fn fn, void *data)
{
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    const kiln__op_table *table = &service->catalog.ops;
    for (uint32_t i = 0; i < table->count; i++) {
        kiln_status status = kiln__op_load(table, i, NULL);
        if (status != KILN_OK)
            return status;
        const kiln__op *op = kiln__op_at(table, i);
        kiln_op_info info = { .size = sizeof(info),
                              .name = op->name,
                              .signature = op->signature,
                              .definition = op->definition,
                              .doc = op->notes[KILN__NOTE_DOC],
                              .nan = op->notes[KILN__NOTE_NAN],
                              .elsewhere = op->notes[KILN__NOTE_ELSEWHERE],
                              .functions = op->functions,
                              .fast_functions = op->fast_functions,
                              .portable = kiln__op_is_portable(op),
                              .whole_only = op->real->integral,
                              .truth = kiln__real_root(op->real, 0)->truth,
                              .reduces = op->real->reductions > 0,
                              .outputs = op->outputs,
                              .inputs = op->inputs,
                              .params = op->params,
                              .origin = i >= table->row_count ? "defined" : "" };
        if (fn(data, &info) != 0)
            break;
    }
    return KILN_OK;
}

/* A template's declarations, as text for the visitor. */
typedef struct description {
    kiln_field_info infos[KILN__PARAMS_MAX];
    const kiln_field_info *fields[KILN__PARAMS_MAX];
    kiln_signature *signature;
    kiln__text tunes[KILN__PARAMS_MAX], lets, requirements, bounds, dtypes;
} description;

static void write_rules(kiln__text *out, const kiln__require *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kiln__text_printf(out, "%s -- %s\n", rules[i].text, rules[i].doc);
}

static void write_lets(kiln__text *out, const kiln__template *template)
{
    for (uint32_t i = 0; i < template->let_count; i++) {
        const kiln__let *let = &template->lets[i];
        kiln__text_printf(out, "%s = %s -- %s\n", let->name, let->text, let->doc);
    }
}

static void write_tunes(description *out, const kiln__template *template)
{
    for (uint32_t i = 0; i < template->tune_count; i++) {
        const kiln__tune *tune = &template->tunes[i];
        bool limited = tune->condition != NULL;
        kiln__text_printf(&out->tunes[tune->param], "%s%s%s\n", tune->text, limited ? " if " : "",
                          limited ? tune->condition : "");
    }
}

static void write_dtypes(kiln__text *out, const kiln__template *template)
{
    for (uint32_t i = 0; i < template->dtype_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? ", " : "", kiln__dtype_name(template->dtypes[i]));
}

/* False: out of memory. */
static bool describe_template(description *out, const kiln__template *template)
{
    write_lets(&out->lets, template);
    write_rules(&out->requirements, template->requires, template->require_count);
    write_rules(&out->bounds, template->bounds, template->bound_count);
    write_tunes(out, template);
    write_dtypes(&out->dtypes, template);
    const kiln__operands operands = kiln__operands_plain(kiln__template_dtype(template), template->max_inputs);
    out->signature = kiln__signature_declared(&template->arguments, &operands);
    bool failed = out->lets.failed || out->requirements.failed || out->bounds.failed || out->dtypes.failed ||
                  out->signature == NULL;
    for (uint32_t i = 0; i < template->param_count; i++) {
        const kiln__declared_param *param = &template->params[i];
        out->infos[i] = (kiln_field_info){ .size = sizeof(out->infos[i]),
                                           .name = param->name,
                                           .values = param->values,
                                           .default_value = param->default_text,
                                           .doc = param->doc,
                                           .tune = kiln__text_string(&out->tunes[i]) };
        out->fields[i] = &out->infos[i];
        failed |= out->tunes[i].failed;
    }
    return !failed;
}

static kiln_status show_template(const kiln__template *template, kiln_template_fn fn, void *data, bool *stop)
{
    description shown = { 0 };
    kiln_status status = describe_template(&shown, template) ? KILN_OK : KILN_ENOMEM;
    char *const *block = template->arguments.block;
    kiln_template_info info = {
        .size = sizeof(info),
        .name = template->name,
        .doc = template->doc,
        .min_inputs = template->min_inputs,
        .max_inputs = template->max_inputs,
        .fields = shown.fields,
        .field_count = template->param_count,
        .signature = shown.signature,
        .text = template->text,
        .lets = kiln__text_string(&shown.lets),
        .requirements = kiln__text_string(&shown.requirements),
        .bounds = kiln__text_string(&shown.bounds),
        .origin = template->origin != NULL ? template->origin : "",
        .reference = template->reference != NULL ? template->reference : "",
        .has_twin = template->cpu_text != NULL,
        .dtypes = kiln__text_string(&shown.dtypes),
        .shared = template->arguments.shared != NULL ? template->arguments.shared : "",
        .tile = template->tile != NULL ? template->tile : "",
        .tolerance = template->tolerance.size > 0 ? &template->tolerance : NULL,
    };
    for (int i = 0; i < 3; i++)
        info.block[i] = block[i] != NULL ? block[i] : "1";
    *stop = status != KILN_OK || fn(data, &info) != 0;
    for (uint32_t i = 0; i < KILN__PARAMS_MAX; i++)
        kiln__text_fini(&shown.tunes[i]);
    kiln__text_fini(&shown.lets);
    kiln__text_fini(&shown.requirements);
    kiln__text_fini(&shown.bounds);
    kiln__text_fini(&shown.dtypes);
    kiln__free(shown.signature);
    return status;
}

kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data)
{
    kiln_status status = KILN_OK;
    bool stop = false;
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    for (uint32_t i = 0; i < service->catalog.template_count && !stop && status == KILN_OK; i++) {
        const kiln__template *template;
        status = kiln__catalog_load(&service->catalog, i, &template, NULL);
        if (status == KILN_OK)
            status = show_template(template, fn, data, &stop);
    }
    return status;
}

kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service, service != NULL && definition != NULL,
                "service and definition must not be NULL");
    return kiln__service_define_op(service, definition, report);
}

kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text, const char **name,
                                 kiln_report *report)
{
    KILN__NO_CANCEL;
    const char *ignored, **defined = name != NULL ? name : &ignored;
    *defined = NULL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service, service != NULL && text != NULL,
                "service and text must not be NULL");
    return kiln__service_define_template(service, text, cpu_text, "defined", defined, report);
}

kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name, kiln_report *report)
{
    KILN__NO_CANCEL;
    const char *ignored, **defined = name != NULL ? name : &ignored;
    *defined = NULL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service, service != NULL && path != NULL,
                "service and path must not be NULL");
    return kiln__service_load_template(service, path, defined, report);
}

/* ---- Manifests */

kiln_status kiln_manifest_read(kiln_service *service, const kiln_manifest *manifest, kiln_manifest_fn fn, void *data,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_SPEC, service, service != NULL && manifest != NULL && fn != NULL,
                "service, manifest and fn must not be NULL");
    kiln_manifest full = KILN_INIT(kiln_manifest);
    kiln_status status = kiln__take_in(&full, sizeof(full), manifest, "kiln_manifest", KILN__STAGE_SPEC, report);
    if (status != KILN_OK)
        return status;
    KILN__REQUIRE(report, KILN__STAGE_SPEC, full.text != NULL, "kiln_manifest.text must not be NULL");
    full.length = full.length > 0 ? full.length : strlen(full.text);
    return kiln__manifest_read(service, &full, fn, data, report);
}
