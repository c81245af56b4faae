/* What a get takes where a spec leaves its geometry open: the same as every other way to ask, and as the explanation
 * says. */
#include "service/get.h"
#include "support/counting.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tensor.h>
#include <kiln/tune.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPEC     "op=relu6 dtype=f32 target=cpu"
#define TUNED    "block=512 elems=8 vector=4 cache=plain"
#define OTHER    "block=256 elems=16 vector=4 cache=plain"
#define THIRD    "block=64 elems=32 vector=4 cache=plain"
#define GPU_SPEC "op=hardsigmoid dtype=f32 target=sm_90"

static kiln_service *service;
static kiln_options options;

static void set_up(void)
{
    unsetenv("KILN_WISDOM");
    options = kiln_test_counting_options(0);
}

static void open_service(void)
{
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_close(service);
    service = NULL;
}

/* ---- What is learnt */

static kiln__wisdom_outcome learn(const char *text)
{
    static const kiln__wisdom_measure measure = { 0.5, 10, 0.9, 40, 5 };
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln__wisdom_device device;
    kiln__wisdom_outcome outcome;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields fields = spec->fields;
    if (!fields.n_set)
        fields.n = 1 << 20;
    fields.n_set = true;
    kiln__geometry_device(service, NULL, &fields.target, &fields, &device);
    ck_assert_str_ne(device.model, "");
    kiln_status status = kiln__wisdom_learn(service->wisdom, &fields, &device, "", &measure, &outcome, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln_spec_free(spec);
    return outcome;
}

static void write_wisdom(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/wisdom", options.cache_dir);
    mkdir(options.cache_dir, 0700);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/wisdom/%s", options.cache_dir, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

/* ---- What is taken */

static int stop_at_chosen(void *data, const kiln_wisdom_candidate *candidate)
{
    *(bool *)data |= candidate->chosen != 0;
    return 0;
}

static char *explain(const char *text, bool *by_wisdom)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, text);
    char *out;
    *by_wisdom = false;
    kiln_status status = kiln_wisdom_explain(&out, service, spec, NULL, stop_at_chosen, by_wisdom, &report);
    ck_assert_msg(status == KILN_OK, "%s: %s", text, report.message);
    kiln_spec_free(spec);
    return out;
}

/* The geometry that a get takes, which must be what it is explained to be and what is built and shown. */
static const char *taken(const char *text)
{
    static char geometry[256];
    bool by_wisdom;
    char *explained = explain(text, &by_wisdom), *source;
    kiln_kernel *kernel = kiln_test_get(service, text);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_str_eq(info.spec, explained);
    kiln_program *program = kiln_test_build(service, text);
    ck_assert_str_eq(kiln_test_program_info(program).spec, explained);
    kiln_program_release(program);
    kiln_spec *spec = kiln_test_spec(service, text);
    ck_assert_int_eq(kiln_test_find_stored(NULL, service, spec, NULL), KILN_OK);
    ck_assert_int_eq(kiln_spec_source(&source, spec, NULL), KILN_OK);
    kiln_spec_free(spec);
    char *target = strstr(explained, " target=");
    ck_assert_ptr_nonnull(target);
    *target = '\0';
    ck_assert_ptr_nonnull(strstr(source, explained));
    snprintf(geometry, sizeof(geometry), "%s", strstr(explained, "block="));
    kiln_text_free(source);
    kiln_text_free(explained);
    kiln_kernel_release(kernel);
    return geometry;
}

/* Strides of two inputs of 1024 x 1024 elements, the layout that they make, and what is learnt for it. */
static const struct {
    int64_t strides[2][2];
    const char *fields, *geometry;
} layouts[] = {
    { { { 1024, 1 }, { 1024, 1 } }, "template=elementwise dtype=f32", "block=512 elems=8 vector=4" },
    { { { 1024, 1 }, { 0, 1 } }, "template=broadcast layout=(full,row) dtype=f32", "block=512 elems=8 vector=4" },
    { { { 2048, 1 }, { 2048, 2 } },
      "template=strided layout=2d(unit,unit,any) dtype=f32",
      "block=512 elems=8 vector=4" },
    { { { 1, 1024 }, { 1024, 1 } }, "template=crossed layout=2d(unit,cross,unit) dtype=f16", "lines=8 vector=2" },
};

START_TEST(test_geometry__tensors_take_what_was_learnt_for_their_layout)
{
    char text[256];
    bool half = strstr(layouts[_i].fields, "f16") != NULL;
    static const int64_t shape[] = { 1024, 1024 };
    kiln_tensor out = { NULL, NULL, half ? KILN_F16 : KILN_F32, 2, shape, NULL }, ins[2] = { out, out };
    kiln_request request = KILN_INIT(kiln_request);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    open_service();
    for (int k = 0; k < 2; k++)
        ins[k].strides = layouts[_i].strides[k];
    for (int round = 0; round < 2; round++) {
        kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
        kiln_kernel *kernel;
        kiln_status status = kiln_apply_request(&spec, &request, service, "op=x+y", &out, 1, ins, 2, &report);
        ck_assert_msg(status == KILN_OK, "%s", report.message);
        ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_OK);
        ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
        ck_assert_msg((strstr(info.spec, layouts[_i].geometry) != NULL) == (round == 1), "%s", info.spec);
        kiln_kernel_release(kernel);
        kiln_spec_free(spec);
        snprintf(text, sizeof(text), "op=x+y %s %s target=cpu", layouts[_i].fields, layouts[_i].geometry);
        ck_assert(round == 1 || learn(text).stored);
    }
    kiln_report_clear(&report);
    close_service();
}
END_TEST

START_TEST(test_geometry__open_parameters_are_those_that_were_learnt)
{
    open_service();
    char before[256];
    snprintf(before, sizeof(before), "%s", taken(SPEC));
    ck_assert_str_ne(before, TUNED);
    ck_assert(learn(SPEC " " TUNED).stored);
    ck_assert_str_eq(taken(SPEC), TUNED);
    ck_assert_str_eq(taken("op=relu6 target=cpu"), TUNED);
    ck_assert_str_eq(taken("op=copy dtype=f32 target=cpu"), TUNED); /* of the class */
    ck_assert_str_ne(taken("op=relu6 dtype=f64 target=cpu"), TUNED);
    close_service();
    open_service(); /* and so does every service after it */
    ck_assert_str_eq(taken(SPEC), TUNED);
    close_service();
}
END_TEST

START_TEST(test_geometry__what_a_spec_sets_stays)
{
    open_service();
    learn(SPEC " " TUNED);
    ck_assert_str_eq(taken(SPEC " block=512"), TUNED);
    ck_assert_str_eq(taken(SPEC " " OTHER), OTHER);
    ck_assert_ptr_null(strstr(taken(SPEC " block=128"), "elems=8 ")); /* not half of a record */
    ck_assert_ptr_nonnull(strstr(taken(SPEC " block=128"), "block=128"));
    close_service();
}
END_TEST

START_TEST(test_geometry__a_loaded_kernel_does_not_hide_what_is_learnt_later)
{
    open_service();
    static const char *const geometries[] = { TUNED, OTHER, THIRD };
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof(text), SPEC " %s", geometries[i]);
        learn(text);
        ck_assert_str_eq(taken(SPEC), geometries[i]);
        kiln_stats stats = kiln_test_stats(service);
        kiln_kernel_release(kiln_test_get(service, SPEC));
        ck_assert_uint_eq(kiln_test_stats(service).hits_loaded, stats.hits_loaded + 1);
        ck_assert_uint_eq(kiln_test_stats(service).compiles, i + 1);
    }
    close_service();
}
END_TEST

START_TEST(test_geometry__equal_wisdom_and_set_geometry_keep_the_way_of_a_hit)
{
    open_service();
    learn(SPEC " " TUNED);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    kiln_spec *set = kiln_test_spec(service, SPEC " " OTHER);
    kiln_kernel *kernel;
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, set, NULL), KILN_OK);
    kiln_kernel_release(kernel);
    kiln__geometry_basis before, after;
    kiln__geometry_basis_of(service, &set->fields, true, &before);
    ck_assert_uint_eq(before.generation, 0);
    learn(SPEC " " THIRD);
    kiln__geometry_basis_of(service, &set->fields, true, &after);
    ck_assert(before.generation == after.generation && before.size == after.size);
    kiln_program *program =
        kiln__obtain_hit(service, NULL, set, false); /* a hit whatever is known, and it looks at no file */
    ck_assert_ptr_nonnull(program);
    kiln__program_release(program);
    kiln_spec_free(set);
    kiln_spec *open = kiln_test_spec(service, SPEC);
    ck_assert_ptr_null(kiln__obtain_hit(service, NULL, open, false)); /* it is time to look */
    ck_assert_ptr_null(kiln__obtain_hit(service, NULL, open, true));  /* another kernel is meant */
    bool hit = false;
    for (int i = 0; i < 100 && !hit; i++) { /* on a busy machine it may be time again by now */
        ck_assert_int_eq(kiln_get_kernel(&kernel, service, open, NULL), KILN_OK);
        kiln_kernel_release(kernel);
        program = kiln__obtain_hit(service, NULL, open, false);
        hit = program != NULL;
        kiln__program_release(program);
    }
    ck_assert(hit);
    kiln_spec_free(open);
    close_service();
}
END_TEST

START_TEST(test_geometry__n_chooses_by_size)
{
    open_service();
    learn(SPEC " n=1024 " TUNED);
    learn(SPEC " n=1048576 " OTHER);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(taken(SPEC " n=1000"), TUNED);
        ck_assert_str_eq(taken(SPEC " n=1000000"), OTHER);
        ck_assert_str_eq(taken(SPEC " n=9000000"), OTHER);
        ck_assert_str_eq(taken(SPEC), OTHER);
    }
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 2);
    close_service();
}
END_TEST

/* What one machine asked for is warmed with the geometry that is then asked for. */
START_TEST(test_geometry__a_record_keeps_the_size_that_matters)
{
    char line[256] = "";
    open_service();
    learn(SPEC " n=1024 " TUNED);
    learn(SPEC " n=1048576 " OTHER);
    close_service();
    options.record = kiln_test_temp_path("record.txt");
    open_service();
    ck_assert_str_eq(taken(SPEC " n=1000"), TUNED);
    close_service();
    FILE *file = fopen(options.record, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL && line[0] == '#')
        continue;
    fclose(file);
    ck_assert_str_eq(line, "op=relu6 dtype=f32 n=1024\n");
    options.record = NULL;
    options.strict = KILN_ON;
    open_service();
    line[strcspn(line, "\n")] = '\0';
    strcat(line, " target=cpu");
    ck_assert_str_eq(taken(line), TUNED);
    ck_assert_int_eq(kiln_test_ask(service, SPEC, NULL), KILN_ESTRICT); /* the large ones were not asked for */
    close_service();
}
END_TEST

START_TEST(test_geometry__switched_off_it_is_the_templates_default)
{
    static const struct {
        kiln_switch option;
        const char *environment;
        bool on;
    } cases[] = { { KILN_DEFAULT, NULL, true }, { KILN_DEFAULT, "", true },     { KILN_DEFAULT, "on", true },
                  { KILN_ON, "off", true },     { KILN_DEFAULT, "off", false }, { KILN_OFF, "on", false },
                  { KILN_ON, NULL, true },      { KILN_OFF, NULL, false } };
    open_service();
    char untaught[256];
    snprintf(untaught, sizeof(untaught), "%s", taken(SPEC));
    learn(SPEC " " TUNED);
    close_service();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool by_wisdom;
        if (cases[i].environment != NULL)
            setenv("KILN_WISDOM", cases[i].environment, 1);
        options.wisdom = cases[i].option;
        open_service();
        ck_assert_str_eq(taken(SPEC), cases[i].on ? TUNED : untaught);
        kiln_text_free(explain(SPEC, &by_wisdom));
        ck_assert_msg(by_wisdom == cases[i].on, "case %zu", i);
        close_service();
        unsetenv("KILN_WISDOM");
    }
    kiln_report report = KILN_INIT(kiln_report);
    options.wisdom = (kiln_switch)3;
    ck_assert_int_eq(kiln_open(&service, &options, &report), KILN_EINVAL);
    options.wisdom = KILN_DEFAULT;
    setenv("KILN_WISDOM", "maybe", 1);
    ck_assert_int_eq(kiln_open(&service, &options, &report), KILN_EINVAL);
    ck_assert_str_eq(report.message, "KILN_WISDOM is 'maybe': expected on or off");
    unsetenv("KILN_WISDOM");
    kiln_report_clear(&report);
}
END_TEST

START_TEST(test_geometry__a_damaged_file_is_counted_and_costs_nothing)
{
    kiln_test_log log = { 0 };
    options.log = kiln_test_log_line;
    options.log_data = &log;
    write_wisdom("amd.json", "{ \"format\": 1, \"records\": [");
    open_service();
    ck_assert_ptr_nonnull(strstr(taken(SPEC), "block=1024 elems=64"));
    ck_assert_uint_eq(kiln_test_stats(service).store_damaged, 1);
    ck_assert_int_eq(log.warnings, 1);
    ck_assert_ptr_nonnull(strstr(log.last, "amd.json"));
    ck_assert(learn(SPEC " " TUNED).stored); /* into another file */
    ck_assert_str_eq(taken(SPEC), TUNED);
    close_service();
}
END_TEST

/* What another process learns, a service that is running knows within about a second. */
START_TEST(test_geometry__another_process_teaches_a_service)
{
    open_service();
    ck_assert_str_ne(taken(SPEC), TUNED);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        service = kiln_test_open(&options);
        _exit(learn(SPEC " " TUNED).stored ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    bool taught = false;
    for (int i = 0; i < 200 && !taught; i++) {
        kiln_text_free(explain(SPEC, &taught));
        usleep(50000);
    }
    ck_assert_str_eq(taken(SPEC), TUNED);
    close_service();
}
END_TEST

/* An asynchronous get never looks at files on the thread that asks, and takes the same kernel. */
START_TEST(test_geometry__asynchronous_gets_take_the_same)
{
    kiln_kernel *kernel;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    open_service();
    for (int i = 0; i < 2; i++) {
        learn(i == 0 ? SPEC " " TUNED : SPEC " " OTHER);
        for (int j = 0; j < 2; j++) {
            ck_assert_int_eq(kiln_test_get_async(service, SPEC, &kernel), KILN_OK);
            ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
            ck_assert_ptr_nonnull(strstr(info.spec, i == 0 ? TUNED : OTHER));
            kiln_kernel_release(kernel);
        }
    }
    close_service();
}
END_TEST

/* The kernel that a text means already, with a new reference. */
static kiln_kernel *called(const char *text)
{
    kiln_kernel *kernel;
    uint64_t gets = atomic_load(&service->gets);
    ck_assert_int_eq(kiln__get_text(&kernel, service, text, NULL, NULL), KILN_OK);
    ck_assert_uint_eq(atomic_load(&service->gets), gets);
    return kernel;
}

/* A text keeps what was found for it: a hit of kiln_call compares the text and nothing else. */
START_TEST(test_geometry__a_text_keeps_its_kernel)
{
    float x[4] = { 1, 2, 3, 4 }, y[4];
    const void *in[] = { x };
    open_service();
    learn(SPEC " " TUNED);
    ck_assert_int_eq(kiln_test_call(service, SPEC, 0, y, in, NULL, NULL), KILN_OK);
    kiln_kernel *kernel = called(SPEC), *again;
    learn(SPEC " " OTHER);
    ck_assert_str_eq(taken(SPEC), OTHER);
    ck_assert_int_eq(kiln_test_call(service, SPEC, 0, y, in, NULL, NULL), KILN_OK);
    again = called(SPEC);
    ck_assert_ptr_eq(again, kernel);
    kiln_kernel_release(again);
    kiln_kernel_release(kernel);
    close_service();
}
END_TEST

/* ---- GPUs that are not here */

START_TEST(test_geometry__wisdom_is_for_every_machine_that_builds_for_its_gpu)
{
    static const char record[] =
        "{\"format\": 1, \"records\": [\n"
        "{\"model\": \"NVIDIA H200\", \"target\": \"sm_90\", \"template\": \"elementwise\", "
        "\"class\": \"1 in, 1 out, light\", \"op\": \"hardsigmoid\", \"dtype\": \"f32\", \"log2_n\": 26, "
        "\"geometry\": \"" TUNED "\"}\n]}\n";
    bool by_wisdom;
    options = kiln_test_options();
    options.libcuda = "/nonexistent/libcuda.so.1";
    write_wisdom("h200.json", record);
    open_service();
    char *explained = explain(GPU_SPEC, &by_wisdom);
    ck_assert(by_wisdom);
    ck_assert_ptr_nonnull(strstr(explained, TUNED));
    kiln_spec *spec = kiln_test_spec(service, GPU_SPEC);
    kiln__fields full;
    ck_assert_int_eq(kiln__service_resolve(service, NULL, &spec->fields, &full, NULL), KILN_OK);
    kiln__text text = { 0 };
    kiln__spec_format(&full, false, &text);
    ck_assert_str_eq(kiln__text_string(&text), explained);
    kiln__text_fini(&text);
    kiln_device *device;
    ck_assert(!kiln__runtime_has_device(service->runtime, NULL, &device)); /* nothing was opened for that */
    kiln_text_free(explained);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* A get of a named target is for the device, so what is known of its model counts, opened before or not. */
START_TEST(test_geometry__a_get_knows_its_device)
{
    static const char record[] =
        "{\"format\": 1, \"records\": [\n"
        "{\"model\": \"A Stranger\", \"target\": \"%s\", \"multiprocessors\": 132, \"template\": \"elementwise\", "
        "\"class\": \"1 in, 1 out, light\", \"op\": \"relu6\", \"dtype\": \"f32\", \"log2_n\": 20, "
        "\"geometry\": \"" OTHER "\"},\n"
        "{\"model\": \"%s\", \"target\": \"%s\", \"template\": \"elementwise\", "
        "\"class\": \"1 in, 1 out, light\", \"op\": \"relu6\", \"dtype\": \"f32\", \"log2_n\": 20, "
        "\"geometry\": \"" TUNED "\"}\n]}\n";
    char text[2048], named[128];
    kiln_device_info info = KILN_INIT(kiln_device_info);
    kiln_device *device;
    kiln_fake_open();
    options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_device_get_info(device, &info), KILN_OK);
    snprintf(text, sizeof(text), record, info.target, info.model, info.target);
    snprintf(named, sizeof(named), "op=relu6 dtype=f32 target=%s", info.target);
    close_service();
    write_wisdom("two.json", text);
    service = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, named);
    const kiln_request request = { .spec = spec, .goal = KILN_LOAD };
    kiln__want *want;
    ck_assert_int_eq(kiln__want_make(&want, &request, false, NULL), KILN_OK);
    ck_assert_int_eq(kiln__want_settle(service, want, NULL), KILN_OK);
    ck_assert_ptr_nonnull(strstr(want->id, TUNED));
    kiln__want_release(want);
    kiln_spec_free(spec);
    close_service();
}
END_TEST

/* ---- Moving records */

static kiln_status import(const char *path, kiln_wisdom_tally *tally, kiln_report *report)
{
    *tally = (kiln_wisdom_tally)KILN_INIT(kiln_wisdom_tally);
    return kiln_wisdom_import(service, &path, 1, tally, report);
}

START_TEST(test_geometry__exported_records_are_imported_elsewhere)
{
    kiln_wisdom_tally tally;
    char *text, *again;
    open_service();
    learn(SPEC " " TUNED);
    learn("op=copy dtype=f32 target=cpu " OTHER);
    ck_assert_int_eq(kiln_wisdom_export(&text, service, NULL, NULL, NULL), KILN_OK);
    close_service();
    kiln_test_temp_write("moved.json", text, strlen(text));
    options.cache_dir = kiln_test_temp_path("elsewhere");
    open_service();
    ck_assert_str_ne(taken(SPEC), TUNED);
    ck_assert_int_eq(import(kiln_test_temp_path("moved.json"), &tally, NULL), KILN_OK);
    ck_assert(tally.added == 2 && tally.replaced == 0 && tally.present == 0 && tally.kept == 0);
    ck_assert_str_eq(taken(SPEC), TUNED);
    ck_assert_int_eq(import(kiln_test_temp_path("moved.json"), &tally, NULL), KILN_OK);
    ck_assert(tally.added == 0 && tally.present == 2);
    ck_assert_int_eq(kiln_wisdom_export(&again, service, NULL, NULL, NULL), KILN_OK);
    ck_assert_str_eq(text, again);
    kiln_text_free(text);
    kiln_text_free(again);
    close_service();
}
END_TEST

START_TEST(test_geometry__a_bad_file_changes_nothing)
{
    static const struct {
        const char *text, *words;
    } bad[] = { { "{", "" },
                { "{\"format\": 2, \"records\": []}", "" },
                { "{\"format\": 1, \"records\": [{\"model\": \"x\"}]}", "target" } };
    kiln_wisdom_tally tally;
    kiln_report report = KILN_INIT(kiln_report);
    char *before, *after;
    open_service();
    learn(SPEC " " TUNED);
    ck_assert_int_eq(kiln_wisdom_export(&before, service, NULL, NULL, NULL), KILN_OK);
    char good_path[600];
    snprintf(good_path, sizeof(good_path), "%s", kiln_test_temp_path("good.json"));
    kiln_test_temp_write("good.json", before, strlen(before));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kiln_test_temp_write("bad.json", bad[i].text, strlen(bad[i].text));
        const char *paths[] = { good_path, kiln_test_temp_path("bad.json") };
        ck_assert_int_eq(kiln_wisdom_import(service, paths, 2, NULL, &report), KILN_EINVAL);
        ck_assert_ptr_nonnull(strstr(report.message, "bad.json: "));
        ck_assert_ptr_nonnull(strstr(report.message, bad[i].words));
    }
    ck_assert_int_eq(chmod(good_path, 0666), 0);
    ck_assert_int_eq(import(good_path, &tally, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "writable"));
    ck_assert_int_eq(import("/nonexistent", &tally, &report), KILN_EINVAL);
    ck_assert_int_eq(import(options.cache_dir, &tally, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_wisdom_export(&after, service, NULL, NULL, NULL), KILN_OK);
    ck_assert_str_eq(before, after);
    kiln_text_free(before);
    kiln_text_free(after);
    close_service();
    options.cache_dir = "";
    open_service();
    ck_assert_int_eq(chmod(good_path, 0600), 0);
    ck_assert_int_eq(import(good_path, &tally, &report), KILN_ENOENT);
    kiln_report_clear(&report);
    close_service();
}
END_TEST

Suite *kiln_test_service_geometry_suite(void)
{
    Suite *suite = suite_create("geometry");
    TCase *tcase = tcase_create("geometry");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_loop_test(tcase, test_geometry__tensors_take_what_was_learnt_for_their_layout, 0,
                        sizeof(layouts) / sizeof(layouts[0]));
    tcase_add_test(tcase, test_geometry__open_parameters_are_those_that_were_learnt);
    tcase_add_test(tcase, test_geometry__what_a_spec_sets_stays);
    tcase_add_test(tcase, test_geometry__a_loaded_kernel_does_not_hide_what_is_learnt_later);
    tcase_add_test(tcase, test_geometry__equal_wisdom_and_set_geometry_keep_the_way_of_a_hit);
    tcase_add_test(tcase, test_geometry__n_chooses_by_size);
    tcase_add_test(tcase, test_geometry__a_record_keeps_the_size_that_matters);
    tcase_add_test(tcase, test_geometry__switched_off_it_is_the_templates_default);
    tcase_add_test(tcase, test_geometry__a_damaged_file_is_counted_and_costs_nothing);
    tcase_add_test(tcase, test_geometry__another_process_teaches_a_service);
    tcase_add_test(tcase, test_geometry__asynchronous_gets_take_the_same);
    tcase_add_test(tcase, test_geometry__a_text_keeps_its_kernel);
    tcase_add_test(tcase, test_geometry__wisdom_is_for_every_machine_that_builds_for_its_gpu);
    tcase_add_test(tcase, test_geometry__a_get_knows_its_device);
    tcase_add_test(tcase, test_geometry__exported_records_are_imported_elsewhere);
    tcase_add_test(tcase, test_geometry__a_bad_file_changes_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
