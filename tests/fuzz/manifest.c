/* Manifests and recorded requests: a text as kiln_manifest_read takes it, and as the record of a service goes on with
 * it. No compiler and no GPU is asked. */
#include "fuzz/fuzz.h"
#include "service/record.h"
#include "support/fields.h"
#include <kiln/kernel.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 2048, COMMAS_MAX = 5, LINES_MAX = 40 };

#define HEADING "# kiln record"
#define LINE    "op=hardsigmoid dtype=f32"

static kiln_service *service;

static void need_service(void)
{
    kiln_options options = KILN_INIT(kiln_options);
    if (service != NULL)
        return;
    options.cache_dir = "";
    options.device = "cpu";
    options.nvrtc = options.libcuda = options.cc = "/nonexistent/library";
    FUZZ_REQUIRE(kiln_open(&service, &options, NULL) == KILN_OK, "a service");
}

/* A file in memory, and a path to it. */
static int make_file(const char *text, size_t length, char path[64])
{
    int fd = memfd_create("manifest", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0 && write(fd, text, length) == (ssize_t)length, "a file in memory");
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* A manifest as it was read. */
typedef struct reading {
    size_t lines;     /* in it at most */
    size_t last;      /* line of the last call */
    kiln__text again; /* a line for each definition and each spec: a manifest that reads as the first one */
    bool recorded;
} reading;

static void require_one_line(const char *message)
{
    FUZZ_REQUIRE(message[0] != '\0' && strpbrk(message, "\n\r") == NULL, "a message is one line: %s", message);
}

static int take_line(void *data, const kiln_manifest_line *line)
{
    reading *self = data;
    FUZZ_REQUIRE(line->number >= self->last && line->number >= 1 && line->number <= self->lines, "a line in order");
    FUZZ_REQUIRE((line->spec != NULL) + (line->definition[0] != '\0') + (line->status != KILN_OK) == 1, "one thing");
    self->last = line->number;
    self->recorded = line->recorded;
    if (line->status != KILN_OK) {
        FUZZ_REQUIRE(line->recorded, "only lines of a record are skipped");
        require_one_line(line->problem);
        return 0;
    }
    if (line->spec != NULL)
        FUZZ_REQUIRE(kiln_spec_field(line->spec, "target")[0] != '\0', "the target is set");
    kiln__text_printf(&self->again, "%s\n", line->spec != NULL ? kiln_spec_text(line->spec) : line->definition);
    return 0;
}

/* Reads a manifest for sm_90. */
static kiln_status read_manifest(reading *out, const char *text, size_t length)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_manifest manifest = KILN_INIT(kiln_manifest);
    *out = (reading){ .lines = 1 };
    for (size_t i = 0; i < length; i++)
        out->lines += text[i] == '\n';
    manifest.text = length > 0 ? text : "";
    manifest.length = length;
    manifest.target = "sm_90";
    kiln_status status = kiln_manifest_read(service, &manifest, take_line, out, &report);
    FUZZ_REQUIRE(report.status == status, "the report has the status");
    FUZZ_REQUIRE(!out->again.failed, "out of memory");
    if (status != KILN_OK)
        require_one_line(report.message);
    kiln_report_clear(&report);
    return status;
}

/* What was read, as far as it was right, is a manifest that reads as the same. */
static void require_same_again(reading *first)
{
    reading second;
    FUZZ_REQUIRE(read_manifest(&second, kiln__text_string(&first->again), first->again.length) == KILN_OK, "it reads");
    FUZZ_REQUIRE(strcmp(kiln__text_string(&first->again), kiln__text_string(&second.again)) == 0, "%s reads as %s",
                 kiln__text_string(&first->again), kiln__text_string(&second.again));
    kiln__text_fini(&first->again);
    kiln__text_fini(&second.again);
}

static kiln__catalog *catalog(void)
{
    static kiln__catalog only;
    if (only.template_count == 0)
        FUZZ_REQUIRE(kiln__catalog_init(&only, NULL) == KILN_OK, "the embedded templates are good");
    return &only;
}

static void record_line(const char *path)
{
    static const kiln__log silent;
    kiln__fields spec;
    FUZZ_REQUIRE(kiln_test_fields(&spec, catalog(), LINE, NULL) == KILN_OK, "a spec");
    kiln__record *record = kiln__record_open(path, &silent);
    FUZZ_REQUIRE(record != NULL, "a record");
    kiln__record_add(record, &spec);
    FUZZ_REQUIRE(kiln__record_errors(record) == 0, "a line can be recorded");
    kiln__record_close(record);
}

/* The record leaves what is there, ends what is torn, and adds a line that is not there, once. */
static void require_recorded(int fd, const char *path, const char *text, size_t length)
{
    size_t room = length + 256;
    char *after = calloc(1, room);
    FUZZ_REQUIRE(after != NULL, "out of memory");
    record_line(path);
    ssize_t whole = pread(fd, after, room - 1, 0);
    FUZZ_REQUIRE(whole >= (ssize_t)length && memcmp(after, text, length) == 0, "what was there stays");
    FUZZ_REQUIRE(whole == (ssize_t)length || strcmp(after + whole - sizeof("\n" LINE), "\n" LINE "\n") == 0,
                 "a line of its own");
    record_line(path);
    FUZZ_REQUIRE(pread(fd, after, room - 1, 0) == whole, "a line that is there is not added");
    free(after);
}

/* What programs record names no target; a line by hand may name one for which there is no compiler. */
static void require_warmed(int fd, bool lenient)
{
    char *text = calloc(1, LONGEST + 256);
    FUZZ_REQUIRE(text != NULL, "out of memory");
    ssize_t length = pread(fd, text, LONGEST + 255, 0);
    reading now;
    kiln_status status = read_manifest(&now, text, (size_t)length);
    FUZZ_REQUIRE(!lenient || strstr(text, "target") != NULL ||
                     (status == KILN_OK && now.recorded && strstr(kiln__text_string(&now.again), LINE " target=sm_90")),
                 "what was recorded can be warmed");
    kiln__text_fini(&now.again);
    free(text);
}

/* All specs of all lines are looked at: most inputs must not stand for many. */
static bool stands_for_few(const char *text, size_t length)
{
    int commas = 0, lines = 0;
    for (size_t i = 0; i < length; i++) {
        commas += text[i] == ',';
        lines += text[i] == '\n';
        if (text[i] == '.' && i + 1 < length && text[i + 1] == '.')
            return false;
    }
    return commas <= COMMAS_MAX && lines <= LINES_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    reading first;
    char path[64];
    if (size > LONGEST || !stands_for_few(text, size))
        return -1;
    need_service();
    read_manifest(&first, text, size);
    require_same_again(&first);
    int fd = make_file(text, size, path);
    require_recorded(fd, path, text, size);
    bool lenient = size == 0 || (size >= strlen(HEADING) && memcmp(text, HEADING, strlen(HEADING)) == 0);
    require_warmed(fd, lenient && memchr(text, '\0', size) == NULL);
    close(fd);
    if (memmem(text, size, "define", strlen("define")) != NULL) {
        kiln_close(service); /* no input sees what another one defined */
        service = NULL;
    }
    return 0;
}
