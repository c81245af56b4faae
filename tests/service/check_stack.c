/* How much stack a host's thread needs: each kind of call on a thread whose stack is painted, so that what it
 * touched shows. */
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* <kiln/base.h> promises that these are enough. The stack has more, so that a call that needs more is a failure and
 * no crash. */
enum { PROMISED = 64 * 1024, PROMISED_MORE = 128 * 1024, STACK = 960 * 1024, PAINT = 0xA5 };

/* The promise is about builds that a compiler has optimised. */
#ifdef NDEBUG
enum { OPTIMISED = 1 };
#else
enum { OPTIMISED = 0 };
#endif

static kiln_service *service;
static kiln_kernel *kernel;
static kiln_status status;
static kiln_report report = KILN_INIT(kiln_report);

/* The stack that fn(data) takes on a thread of its own, what the C library keeps on it left out. */
static size_t measure(void *(*fn)(void *data))
{
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched = 0;
    unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stack, MAP_FAILED);
    memset(stack, PAINT, STACK);
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstack(&attributes, stack, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, fn, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    while (untouched < STACK && stack[untouched] == PAINT)
        untouched++;
    munmap(stack, STACK);
    return STACK - untouched;
}

static void *do_nothing(void *data)
{
    return data;
}

static void get_text(const char *text)
{
    kiln_spec *spec;
    status = kiln_spec_parse(&spec, service, text, &report);
    if (status == KILN_OK)
        status = kiln_get_kernel(&kernel, service, spec, &report);
    kiln_spec_free(spec);
}

static void build_text(const char *text)
{
    kiln_spec *spec;
    kiln_program *program = NULL;
    status = kiln_spec_parse(&spec, service, text, &report);
    if (status == KILN_OK)
        status = kiln_test_build_spec(&program, service, spec, &report);
    kiln_program_release(program);
    kiln_spec_free(spec);
}

#define SPEC "op=hardtanh(-1,3) dtype=f32 target=cpu"

static void *open_service(void *data)
{
    const kiln_options *options = data;
    kiln_options own = KILN_INIT(kiln_options);
    own = options != NULL ? *options : kiln_test_options();
    own.isolate = KILN_ISOLATE_NEVER;
    status = kiln_open(&service, &own, &report);
    return NULL;
}

static void *get_cold(void *data)
{
    get_text(SPEC);
    return data;
}

static void *get_hit(void *data)
{
    get_text(SPEC);
    kiln_kernel_release(kernel);
    return data;
}

static void *build_nvrtc(void *data)
{
    build_text("op=exp_of(add(x,y)) dtype=f16 target=sm_90");
    return data;
}

static void *define(void *data)
{
    status = kiln_op_define(service, "exp_of(x) = exp(x) * min(max(x + 3, 0), 6) / 6 + log(abs(x) + 1)", &report);
    return data;
}

static void *define_template(void *data)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/transpose.cu", getenv("KILN_EXAMPLE_TEMPLATES"));
    status = kiln_template_load(service, path, NULL, &report);
    return data;
}

static int see_line(void *seen, const kiln_manifest_line *line)
{
    (void)seen;
    (void)line;
    return 0;
}

static void *read_manifest(void *data)
{
    char text[1024];
    kiln_manifest manifest = KILN_INIT(kiln_manifest);
    snprintf(text, sizeof(text), "define op thrice(x) = 3 * x\ntemplate=%s/hardsigmoid256.cu,elementwise target=cpu\n",
             getenv("KILN_EXAMPLE_TEMPLATES"));
    manifest.text = text;
    status = kiln_manifest_read(service, &manifest, see_line, NULL, &report);
    return data;
}

static void *launch(void *data)
{
    static float in[100000], out[100000];
    const void *const inputs[] = { in };
    status = kiln_test_launch(kernel, 100000, out, inputs, NULL, &report);
    kiln_kernel_release(kernel);
    return data;
}

static int see_entry(void *seen, const kiln_entry_info *entry)
{
    (void)seen;
    (void)entry;
    return 0;
}

static int see_record(void *seen, const kiln_wisdom_record *record)
{
    (void)seen;
    (void)record;
    return 0;
}

static int see_finding(void *seen, const kiln_finding *finding)
{
    (void)seen;
    (void)finding;
    return 0;
}

static void *administer(void *data)
{
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    status = kiln_cache_visit(service, see_entry, NULL, &report);
    if (status == KILN_OK)
        status = kiln_cache_export(service, kiln_test_temp_path("pack"), NULL, NULL, NULL, &report);
    if (status == KILN_OK)
        status = kiln_cache_import(service, kiln_test_temp_path("pack"), NULL, &report);
    if (status == KILN_OK)
        status = kiln_cache_trim(service, 0, 0, NULL, &report);
    if (status == KILN_OK)
        status = kiln_cache_get_info(service, &info, &report);
    if (status == KILN_OK)
        status = kiln_cache_purge(service, kiln_test_is_refused, NULL, NULL, &report);
    return data;
}

static void *ask_wisdom(void *data)
{
    char *text = NULL;
    status = kiln_wisdom_visit(service, see_record, NULL);
    if (status == KILN_OK)
        status = kiln_wisdom_export(&text, service, NULL, NULL, &report);
    kiln_text_free(text);
    return data;
}

static void *tune(void *data)
{
    kiln_spec *spec;
    kiln_tuning *tuning;
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    options.budget_s = 0.5;
    options.learn = KILN_OFF;
    status = kiln_spec_parse(&spec, service, "op=relu6 dtype=f32 target=cpu", &report);
    if (status == KILN_OK)
        status = kiln_tune(&tuning, service, spec, &options, &report);
    kiln_tuning_free(status == KILN_OK ? tuning : NULL);
    kiln_spec_free(spec);
    return data;
}

static void *sweep(void *data)
{
    kiln_tuning *tuning;
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_work work = KILN_INIT(kiln_work);
    kiln_spec *specs[2] = { NULL, NULL };
    options.rounds = 1;
    options.work = &work;
    work.elements = 4096;
    status = kiln_spec_parse(&specs[0], service, "op=relu6 dtype=f32 target=cpu block=64 elems=8", &report);
    if (status == KILN_OK)
        status = kiln_spec_parse(&specs[1], service, "op=relu6 dtype=f32 target=cpu block=64 elems=16", &report);
    if (status == KILN_OK)
        status = kiln_sweep(&tuning, service, (const kiln_spec *const *)specs, 2, &options, &report);
    kiln_tuning_free(status == KILN_OK ? tuning : NULL);
    kiln_spec_free(specs[0]);
    kiln_spec_free(specs[1]);
    return data;
}

/* As deep as expressions may be. */
static void nest(char text[1024], const char *begin, const char *open, int depth, const char *end)
{
    strcpy(text, begin);
    for (int i = 0; i < depth; i++)
        strcat(text, open);
    strcat(text, "x");
    for (int i = 0; i < depth; i++)
        strcat(text, ")");
    strcat(text, end);
}

static void *define_deep(void *data)
{
    char text[1024];
    nest(text, "deep(x) = ", "(1.5+", 44, "");
    status = kiln_op_define(service, text, &report);
    return data;
}

static void *parse_deep(void *data)
{
    char text[1024];
    kiln_spec *spec;
    nest(text, "op=", "relu6(", 30, " dtype=f32 target=cpu");
    status = kiln_spec_parse(&spec, service, text, &report);
    kiln_spec_free(status == KILN_OK ? spec : NULL);
    return data;
}

static void *build_program(void *data)
{
    kiln_program *program;
    kiln_source source = KILN_INIT(kiln_source);
    source.text = "extern \"C\" __global__ void fill(float *out) { out[threadIdx.x] = 1; }";
    source.target = "sm_90";
    status = kiln_test_build_source(&program, service, &source, &report);
    kiln_program_release(status == KILN_OK ? program : NULL);
    return data;
}

static void *get_stored(void *data)
{
    get_text(SPEC);
    kiln_kernel_release(kernel);
    return data;
}

static void *examine(void *data)
{
    status = kiln_doctor(service, see_finding, NULL);
    return data;
}

static void *close_service(void *data)
{
    kiln_close(service);
    return data;
}

START_TEST(test_stack__is_enough)
{
    static const struct {
        const char *what;
        void *(*fn)(void *data);
        size_t promised;
    } calls[] = {
        { "kiln_open", open_service, PROMISED },
        { "definition", define, PROMISED_MORE },
        { "deep definition", define_deep, PROMISED_MORE },
        { "deep spec", parse_deep, PROMISED_MORE },
        { "template", define_template, PROMISED },
        { "manifest", read_manifest, PROMISED_MORE },
        { "cold get on the cpu", get_cold, PROMISED },
        { "launch on the cpu", launch, PROMISED },
        { "hit", get_hit, PROMISED },
        { "NVRTC in the process", build_nvrtc, PROMISED },
        { "source in the process", build_program, PROMISED },
        { "cache administration", administer, PROMISED },
        { "wisdom", ask_wisdom, PROMISED },
        { "doctor", examine, PROMISED_MORE },
        { "tuning", tune, PROMISED_MORE },
        { "sweep", sweep, PROMISED_MORE },
        { "kiln_close", close_service, PROMISED },
        { "kiln_open again", open_service, PROMISED },
        { "get from the store", get_stored, PROMISED },
        { "kiln_close again", close_service, PROMISED },
    };
    size_t least = measure(do_nothing);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        size_t taken = measure(calls[i].fn);
        printf("   %-22s %6zu bytes, %6zu with the C library's\n", calls[i].what, taken - least, taken);
        ck_assert_msg(status == KILN_OK || status == KILN_ENOCOMPILER, "%s: %s", calls[i].what, report.message);
        ck_assert_msg(!OPTIMISED || taken <= calls[i].promised, "%s takes %zu bytes, promised are %zu", calls[i].what,
                      taken, calls[i].promised);
    }
}
END_TEST

Suite *kiln_test_service_stack_suite(void)
{
    Suite *suite = suite_create("stack");
    TCase *tcase = tcase_create("stack");
    kiln_test_temp_use(tcase);
    if (!KILN_TEST_SANITIZED)
        tcase_add_test(tcase, test_stack__is_enough);
    suite_add_tcase(suite, tcase);
    return suite;
}
