#include "support/reading.h"
#include "gpu/cuda.h"

#include "base/alloc.h"
#include "service/service.h"
#include "source/reads.h"
#include "source/source.h"
#include "support/fake_image.h"
#include <check.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARCH = 90, CUBIN_MAX = 8192, FILE_MAX = 65536, AWAIT_MS = 30000 };

typedef struct reading {
    kiln__compiler base;
    kiln__compiler *inner; /* what it stands for, which is not asked but to close */
} reading;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static bool held;
static int begun;

/* ---- Holding compiles */

void kiln_test_reading_hold(void)
{
    pthread_mutex_lock(&lock);
    held = true;
    pthread_mutex_unlock(&lock);
}

void kiln_test_reading_go(void)
{
    pthread_mutex_lock(&lock);
    held = false;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

int kiln_test_reading_count(void)
{
    pthread_mutex_lock(&lock);
    int count = begun;
    pthread_mutex_unlock(&lock);
    return count;
}

void kiln_test_reading_await(int count)
{
    for (int i = 0; i < AWAIT_MS && kiln_test_reading_count() < count; i++)
        usleep(1000);
    ck_assert_int_ge(kiln_test_reading_count(), count);
}

static void wait_here(void)
{
    pthread_mutex_lock(&lock);
    begun++;
    while (held)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- What a source reads */

/* A file of the first include directory: its length, -1 if there is none. */
static long slurp(const kiln__unit *own, const char *name, char bytes[FILE_MAX])
{
    char path[PATH_MAX];
    const char *directory = kiln__list_next(&own->places, NULL);
    if (directory != NULL) /* after the name of the first place its path */
        directory = kiln__list_next(&own->places, directory);
    if (directory == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(bytes, 1, FILE_MAX, file) : 0;
    if (file != NULL)
        fclose(file);
    return file != NULL ? (long)length : -1;
}

/* Notes what is at a name, and appends it to the text that is compiled. False: there is nothing. */
static bool take_in(const kiln__unit *own, const char *name, kiln__text *reads, kiln__text *text)
{
    char bytes[FILE_MAX];
    uint8_t sum[KILN__DIGEST_SIZE];
    kiln__read read = { .kind = KILN__READ_NOTHING, .place = "0", .digest = "-" };
    long length = slurp(own, name, bytes);
    kiln__text_copy(read.path, sizeof(read.path), name);
    if (length >= 0) {
        read.kind = KILN__READ_FILE;
        kiln__digest(sum, bytes, (size_t)length);
        kiln__digest_hex(read.digest, sum);
        kiln__text_append_bytes(text, bytes, (size_t)length);
    }
    kiln__reads_add(reads, &read);
    return length >= 0;
}

/* False, with the name, if there is an include of nothing. */
static bool read_all(const kiln__unit *unit, kiln__text *reads, kiln__text *text, char missing[256])
{
    for (const char *at = unit->source; at != NULL; at = strchr(at, '\n')) {
        char name[256];
        at += *at == '\n';
        bool needed = sscanf(at, "#include \"%255[^\"]\"", name) == 1;
        if (!needed && sscanf(at, "#if __has_include(\"%255[^\"]\")", name) != 1)
            continue;
        if (!take_in(unit, name, reads, text) && needed) {
            snprintf(missing, sizeof(name), "%s", name);
            return false;
        }
    }
    kiln__text_append(text, unit->source);
    return true;
}

/* ---- The compiler */

static void append_search(const kiln__compiler *compiler, kiln__text *out)
{
    (void)compiler;
    kiln__text_append(out, "the test's own\n");
}

/* NVRTC's own, so that it finds what this compiler made. */
static void append_options(const kiln__compiler *compiler, const kiln__unit *unit, kiln__text *out)
{
    (void)compiler;
    kiln__nvrtc_options(unit, out);
}

static kiln_status tell(kiln__compiler *compiler, kiln__toolchain *out, kiln_report *report)
{
    (void)compiler;
    (void)report;
    memset(out, 0, sizeof(*out));
    snprintf(out->id, sizeof(out->id), "reading-1");
    snprintf(out->version, sizeof(out->version), "1");
    snprintf(out->path, sizeof(out->path), "/proc/self/exe");
    kiln__target_parse("sm_90", 5, &out->targets[0]);
    out->target_count = 1;
    return KILN_OK;
}

static char *join(const kiln__list *list)
{
    kiln__text text = { 0 };
    for (const char *at = kiln__list_next(list, NULL); at != NULL; at = kiln__list_next(list, at))
        kiln__text_printf(&text, "%s\n", at);
    if (list->count == 0)
        kiln__text_append(&text, "k\n");
    return kiln__text_take(&text);
}

static kiln_status make_image(const kiln__unit *own, const kiln__text *text, const kiln__text *reads, kiln__image *out)
{
    static const char *const only[] = { "k" };
    fake_image seen;
    const char **names = kiln__list_array(&own->functions, 0, 1);
    memset(out, 0, sizeof(*out));
    out->binary = kiln__calloc(1, CUBIN_MAX);
    out->ptx = kiln__strdup(text->data);
    out->log = kiln__strdup(strstr(text->data, "#warning") != NULL ? "user.cu(1): warning: as asked for\n" : "");
    out->functions = join(&own->functions);
    out->names = join(&own->functions);
    out->reads = kiln__strdup(reads->data);
    snprintf(out->toolchain, sizeof(out->toolchain), "reading-1");
    size_t count = own->functions.count;
    if (names != NULL && out->binary != NULL) {
        out->binary_length =
            fake_image_make(out->binary, CUBIN_MAX, ARCH, count > 0 ? names : only, count > 0 ? count : 1, 0);
        ck_assert_int_eq(fake_image_read(&seen, out->binary, ARCH, 13000), KILN__CUDA_SUCCESS);
    }
    out->ptx_length = text->length;
    bool whole = names != NULL && out->binary != NULL && out->ptx != NULL && out->log != NULL &&
                 out->functions != NULL && out->names != NULL && out->reads != NULL;
    kiln__free(names);
    if (!whole)
        kiln__image_fini(out);
    return whole ? KILN_OK : KILN_ENOMEM;
}

static kiln_status refuse(kiln_report *report, const char *what, const char *which)
{
    kiln__text log = { 0 };
    kiln_status status =
        kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "user.cu(1): error: %s%s", what, which);
    kiln__text_printf(&log, "user.cu(1): error: %s%s\n1 error detected.\n", what, which);
    if (!log.failed)
        kiln__report_set_log(report, log.data);
    kiln__text_fini(&log);
    return status;
}

static kiln_status compile(kiln__compiler *compiler, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    kiln__text reads = { 0 }, text = { 0 };
    char missing[256];
    kiln_status status;
    (void)compiler;
    kiln__text_append(&reads, "");
    bool found = read_all(unit, &reads, &text, missing);
    wait_here();
    if (reads.failed || text.failed)
        status = KILN_ENOMEM;
    else if (!found)
        status = refuse(report, "cannot open source file ", missing);
    else if (strstr(text.data, "#error") != NULL)
        status = refuse(report, "#error", "");
    else
        status = make_image(unit, &text, &reads, out);
    if (status == KILN_ENOMEM)
        kiln__fail_memory(report, KILN__STAGE_COMPILE);
    kiln__text_fini(&reads);
    kiln__text_fini(&text);
    return status;
}

static void close_both(kiln__compiler *compiler)
{
    reading *self = (reading *)compiler;
    self->inner->vtable->close(self->inner);
    free(self);
}

static const kiln__compiler_vtable vtable = { .name = "nvrtc",
                                              .search = append_search,
                                              .options = append_options,
                                              .open = tell,
                                              .identify = tell,
                                              .compile = compile,
                                              .close = close_both };

void kiln_test_reading_install(kiln_service *service)
{
    reading *self = calloc(1, sizeof(*self));
    ck_assert_ptr_nonnull(self);
    *self = (reading){ { &vtable }, service->builders[KILN__BACKEND_CUDA].toolchains.compiler };
    service->builders[KILN__BACKEND_CUDA].toolchains.compiler = &self->base;
    begun = 0;
}
