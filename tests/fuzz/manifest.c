/* Manifests and recorded requests: a file of lines as `kiln warm --manifest` reads it, and as the record of a service
 * goes on with it. No compiler and no GPU is asked. */
#include "cli/common.h"
#include "fuzz/command.h"
#include "fuzz/fuzz.h"
#include "service/record.h"
#include "support/fields.h"
#include "warm/worklist.h"
#include <kiln/kiln.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 2048, COMMAS_MAX = 5, LINES_MAX = 40 };

#define HEADING "# kiln record"
#define LINE    "op=hardsigmoid dtype=f32"

static struct session session = { .report = KILN_INIT(kiln_report) };

static void need_service(void)
{
    kiln_options options = KILN_INIT(kiln_options);
    if (session.service != NULL)
        return;
    options.cache_dir = "";
    options.device = "cpu";
    options.nvrtc = options.libcuda = options.cc = "/nonexistent/library";
    FUZZ_REQUIRE(kiln_open(&session.service, &options, &session.report) == KILN_OK, "a service: %s",
                 session.report.message);
}

/* A file in memory, and a path to it. */
static int make_file(const char *text, size_t length, char path[64])
{
    int fd = memfd_create("manifest", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0 && write(fd, text, length) == (ssize_t)length, "a file in memory");
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* An item's text reads as one spec, with every field set, whose text is the same. */
static void require_canonical(const work_item *item)
{
    struct worklist again = { .items = NULL };
    FUZZ_REQUIRE(worklist_add(&again, &session, item->spec, NULL) == STATUS_DONE && again.count == 1, "'%s' is a spec",
                 item->spec);
    FUZZ_REQUIRE(strcmp(again.items[0].spec, item->spec) == 0, "'%s' reads as '%s'", item->spec, again.items[0].spec);
}

static bool holds(const struct worklist *list, const char *spec)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].spec, spec) == 0)
            return true;
    return false;
}

/* Reads the file for sm_90 into a list of distinct specs. */
static int read_manifest(struct worklist *list, const char *path)
{
    *list = (struct worklist){ .target = "sm_90" };
    int status = worklist_add_file(list, &session, path);
    FUZZ_REQUIRE(status == STATUS_DONE || status == STATUS_USAGE || status == STATUS_FAILED, "an exit status");
    size_t before = list->count;
    worklist_unique(list);
    FUZZ_REQUIRE(list->count <= before && (before == 0 || list->count > 0), "the first of equals stays");
    for (size_t i = 0; i < list->count; i++) {
        require_canonical(&list->items[i]);
        for (size_t k = 0; k < i; k++)
            FUZZ_REQUIRE(strcmp(list->items[i].spec, list->items[k].spec) != 0, "%s comes once", list->items[i].spec);
    }
    return status;
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

static void read_recorded(const char *path, const char *text, bool lenient)
{
    struct worklist wanted = { .target = "sm_90" }, list;
    FUZZ_REQUIRE(worklist_add(&wanted, &session, LINE, NULL) == STATUS_DONE && wanted.count == 1, "a spec");
    int status = read_manifest(&list, path);
    /* What programs record names no target; one that somebody wrote may be one for which there is no compiler. */
    if (lenient && strstr(text, "target") == NULL)
        FUZZ_REQUIRE(status == STATUS_DONE && holds(&list, wanted.items[0].spec), "what was recorded can be warmed");
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
    struct worklist list;
    char path[64];
    if (size > LONGEST || !stands_for_few(text, size))
        return -1;
    need_service();
    int fd = make_file(text, size, path);
    read_manifest(&list, path);
    require_recorded(fd, path, text, size);
    char *string = fuzz_string(data, size);
    bool lenient = size == 0 || strncmp(string, HEADING, sizeof(HEADING) - 1) == 0;
    read_recorded(path, memchr(data, '\0', size) == NULL ? string : "target", lenient);
    free(string);
    close(fd);
    if (memmem(data, size, "define", strlen("define")) != NULL) {
        kiln_close(session.service); /* no input sees what another one defined */
        session.service = NULL;
    }
    command_end();
    return 0;
}
