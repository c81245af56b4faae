#include "service/program.h"

#include "backend/cuda/cubin.h"
#include "base/alloc.h"
#include "compile/direct.h"
#include "os/cpu.h"
#include "service/obtain.h"
#include "source/option.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- From what was given to a unit */

static kiln_status fail_directory(const char *directory, int error, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, error, "include directory '%.200s' cannot be used: %s",
                      directory, strerrordesc_np(error));
}

kiln_status kiln__program_want_copy(kiln__program_want *out, const kiln_source *given, bool later, kiln_report *report)
{
    char here[PATH_MAX];
    const char *relative = NULL;
    memset(out, 0, sizeof(*out));
    out->targeted = given->target != NULL;
    kiln_status status = kiln__source_make(&out->unit, given, report);
    if (status != KILN_OK)
        return status;
    out->unit->source.directories = given->include_dir_count;
    for (size_t i = 0; i < given->include_dir_count; i++) {
        if (given->include_dirs == NULL || given->include_dirs[i] == NULL)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "kiln_source.include_dirs has a NULL in it");
        kiln__list_add(&out->directories, given->include_dirs[i]);
        relative = given->include_dirs[i][0] != '/' ? given->include_dirs[i] : relative;
    }
    bool lacking = false;
    if (later && relative != NULL && getcwd(here, sizeof(here)) == NULL)
        return fail_directory(relative, errno, report);
    if (later && relative != NULL)
        lacking = (out->from = kiln__strdup(here)) == NULL;
    return lacking || out->directories.bytes.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : KILN_OK;
}

void kiln__program_want_fini(kiln__program_want *want)
{
    kiln__source_free(want->unit);
    kiln__list_fini(&want->directories);
    kiln__free(want->from);
}

static kiln_status add_directory(kiln__program_want *want, const char *directory, size_t number, kiln_report *report)
{
    char whole[PATH_MAX], path[PATH_MAX], name[24];
    struct stat status;
    bool relative = want->from != NULL && directory[0] != '/' && directory[0] != '\0';
    int length = snprintf(whole, sizeof(whole), "%s%s%s", relative ? want->from : "", relative ? "/" : "", directory);
    if (length >= (int)sizeof(whole))
        return fail_directory(directory, ENAMETOOLONG, report);
    if (realpath(whole, path) == NULL || stat(path, &status) != 0)
        return fail_directory(directory, errno, report);
    if (!S_ISDIR(status.st_mode))
        return fail_directory(directory, ENOTDIR, report);
    snprintf(name, sizeof(name), "%zu", number);
    kiln__list_add(&want->unit->source.places, name);
    kiln__list_add(&want->unit->source.places, path);
    return KILN_OK;
}

static kiln_status add_directories(kiln__program_want *want, kiln_report *report)
{
    const kiln__list *all = &want->directories;
    kiln_status status = KILN_OK;
    size_t number = 0;
    for (const char *at = kiln__list_next(all, NULL); at != NULL && status == KILN_OK; at = kiln__list_next(all, at))
        status = add_directory(want, at, number++, report);
    return status;
}

/* A text reads what this process can: no worker keeps it to directories, or tells what it has read. */
static kiln_status check_unwatched(const kiln__program_want *want, kiln_report *report)
{
    const kiln__list *options = &want->unit->source.options;
    if (want->directories.count > 0)
        return kiln__fail(
            report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
            "with isolate=never there are no include directories: nothing would keep the text to them, nor "
            "tell what it has read; give the headers themselves, or let a worker compile");
    for (const char *at = kiln__list_next(options, NULL); at != NULL; at = kiln__list_next(options, at))
        if (kiln__option_tells_directory(at))
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                              "option '%s' is for sources that a worker compiles: with isolate=never it would put this "
                              "process's working directory into the code",
                              at);
    return KILN_OK;
}

static void add_cuda_headers(kiln_service *service, const kiln__target *target, kiln__source_parts *source)
{
    kiln__toolchain toolchain;
    bool known = kiln__toolchains_get(&kiln__service_builder(service, target)->toolchains, &toolchain, NULL) == KILN_OK;
    kiln__direct_find_cuda(known ? toolchain.path : "", &source->places);
}

static kiln_status choose_target(kiln_service *service, kiln_device *on, kiln__target *out, kiln_report *report)
{
    kiln_status status = on != NULL ? KILN_OK : kiln__runtime_device(service->runtime, NULL, &on, report);
    if (status != KILN_OK)
        return status;
    if (kiln__target_facts(&on->target)->twin)
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "CUDA text is compiled for GPUs only and the device is the cpu: name a target such as sm_90");
    return kiln__builder_choose_target(kiln__service_builder(service, &on->target), &on->target, out)
               ? KILN_OK
               : kiln__fail_memory(report, KILN__STAGE_OPEN);
}

/* Finds all that the unit still lacks. */
static kiln_status settle_unit(kiln_service *service, kiln__program_want *want, kiln_report *report)
{
    kiln__source_unit *unit = want->unit;
    bool watched = service->isolate != KILN_ISOLATE_NEVER;
    kiln_status status = watched ? add_directories(want, report) : check_unwatched(want, report);
    if (status == KILN_OK && !want->targeted)
        status = choose_target(service, want->device, &unit->unit.target, report);
    if (status != KILN_OK)
        return status;
    const kiln__target target = unit->unit.target;
    if (watched && unit->source.cuda_headers)
        add_cuda_headers(service, &target, &unit->source);
    if (unit->source.places.bytes.failed || kiln__source_set_target(unit, &target) != KILN_OK ||
        kiln__source_identify(unit) != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    return KILN_OK;
}

/* ---- Without a device */

kiln_status kiln__program_build(kiln_service *service, kiln__program_want *want, kiln__artifact **out,
                                kiln_report *report)
{
    kiln__built built = { 0 };
    bool lead = false;
    *out = NULL;
    kiln_status status = kiln__service_check_device(service, want->device, report);
    if (status == KILN_OK)
        status = settle_unit(service, want, report);
    if (status == KILN_OK)
        status = kiln__obtain_entry(service, &want->unit->unit, want->strict, KILN__MISS_NONE, &built, &lead, report);
    if (status == KILN_OK && lead)
        kiln__obtain_count(service, &built);
    if (status == KILN_OK)
        status = kiln__artifact_make(out, &want->unit->unit, &built, kiln__built_origin(service, &built), report);
    kiln__built_fini(&built);
    return status;
}

/* ---- On a device */

static kiln_status choose_device(kiln_service *service, kiln_device **device, kiln_report *report)
{
    kiln_status status = *device != NULL ? kiln__service_check_device(service, *device, report)
                                         : kiln__runtime_device(service->runtime, NULL, device, report);
    if (status != KILN_OK || (*device)->backend->vtable->functions != NULL)
        return status;
    return kiln__fail(
        report, KILN_ETARGET, KILN__STAGE_LOAD, 0,
        "CUDA text runs on GPUs only and the device is %s: choose a GPU as the device, or build for a named target, "
        "with the goal KILN_BUILD",
        (*device)->name);
}

kiln_status kiln__program_want_settle(kiln_service *service, kiln__program_want *want, kiln_report *report)
{
    kiln_status status = choose_device(service, &want->device, report);
    return status == KILN_OK ? settle_unit(service, want, report) : status;
}

/* Puts a loaded module, which it takes over, among the programs. NULL: out of memory. */
static kiln__loaded *keep(kiln_service *service, const kiln__program_want *want, const kiln__built *built,
                          kiln__module *module)
{
    kiln__loaded *program =
        kiln__loaded_new(service->runtime, want->device, module, &built->blob->entry, &want->unit->unit);
    if (program == NULL)
        return NULL;
    program->origin = kiln__built_origin(service, built);
    program->compile_ms = built->compiled ? kiln__cpu_ms(built->compile_ns) : 0;
    return kiln__loaded_table_add(&service->programs, program);
}

kiln__loaded *kiln__program_take(kiln_service *service, const kiln__program_want *want, kiln__miss *miss)
{
    kiln__built built = { 0 };
    kiln__module *module = NULL;
    kiln__loaded *program = NULL;
    const kiln__unit *unit = &want->unit->unit;
    kiln__loaded_claim claim;
    if (kiln__obtain_known(service, unit, &built)) {
        program = kiln__loaded_table_claim(&service->programs, want->device, &built.blob->entry.key, &claim);
        /* A quick look waits for nobody: where another thread is loading it, a flight will find it. */
        if (claim.held && kiln__obtain_try(service, want->device, unit, &built, &module))
            program = keep(service, want, &built, module);
        kiln__loaded_table_settle(&service->programs, &claim);
    }
    if (program != NULL)
        kiln__obtain_count(service, &built);
    *miss = built.miss;
    kiln__built_fini(&built);
    return program;
}

/* The program of an entry if it is loaded, or has been once another thread has finished with it. NULL: the caller is to load it,
 * which others wait for, unless they have waited once. */
static kiln__loaded *find_loaded(kiln_service *service, kiln_device *device, const kiln__key *key,
                                 kiln__loaded_claim *claim)
{
    kiln__loaded *found = kiln__loaded_table_claim(&service->programs, device, key, claim);
    if (!claim->busy)
        return found;
    kiln__workpool_aside(&service->pool, true);
    found = kiln__loaded_table_await(&service->programs, device, key);
    kiln__workpool_aside(&service->pool, false);
    return found;
}

/* Loads an entry unless it is loaded. */
static kiln_status load(kiln_service *service, const kiln__program_want *want, kiln__built *built, kiln__loaded **out,
                        kiln_report *report)
{
    kiln__module *module = NULL;
    kiln__loaded_claim claim;
    *out = find_loaded(service, want->device, &built->blob->entry.key, &claim);
    if (*out != NULL)
        return KILN_OK;
    kiln_status status =
        kiln__obtain_load(service, want->device, &want->unit->unit, want->strict, built, &module, report);
    if (status == KILN_OK && (*out = keep(service, want, built, module)) == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_LOAD);
    kiln__loaded_table_settle(&service->programs, &claim);
    return status;
}

kiln_status kiln__program_make(kiln_service *service, const kiln__program_want *want, kiln__miss earlier,
                               kiln__loaded **out, kiln_report *report)
{
    kiln__built built = { 0 };
    bool lead;
    kiln_status status = kiln__obtain_entry(service, &want->unit->unit, want->strict, earlier, &built, &lead, report);
    if (status == KILN_OK)
        status = load(service, want, &built, out, report);
    if (status == KILN_OK && lead)
        kiln__obtain_count(service, &built);
    if (status == KILN_OK && built.log != NULL)
        kiln__report_set_log(report, built.log);
    kiln__built_fini(&built);
    return status;
}
