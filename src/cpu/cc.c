/* The compiler of the cpu backend: gcc or clang, run as a program. */
#include "cpu/cpu.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/digest.h"
#include "os/cpu.h"
#include "os/file.h"
#include "os/process.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60 * 1000, ARGUMENTS_MAX = 48, PATH_SIZE = 1024 + 32 };

/* -ffp-contract=off and -fno-math-errno make the arithmetic that of the source; the rest keeps paths, the compiler's
 * name, LD_RUN_PATH and, except for a twin that includes, the system's headers out of the result. So equal text gives
 * equal bytes. libm is for fma where the instruction set has none. */
#define OPTIONS                                                                        \
    "-std=%s -O3 -ffp-contract=off -fno-math-errno -fPIC -shared -fvisibility=hidden " \
    "-march=%s -g0 -fno-ident -pipe -s -nostartfiles -Wl,--build-id=none "             \
    "-Wl,-rpath= -Wl,--as-needed -x c - -lm"

/* Where a text that includes headers lies while it is compiled, beside them and in its temporary directory. A text on
 * the standard input would find those of the working directory first. */
#define HEADERS   "/" KILN__FILE_OBJECT ".include"
#define WITH_THEM KILN__FILE_OBJECT ".c"

typedef struct cc {
    kiln__compiler compiler;
    const kiln__log *log;
    char *program;
    atomic_flag swept;
    pthread_mutex_t lock;       /* guards what follows */
    struct stat stamp;          /* of toolchain->path when it was asked */
    kiln__toolchain *toolchain; /* NULL until known */
} cc;

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "cc.c: name this machine's ELF number here"
#endif

bool kiln__cc_check_object(const void *bytes, size_t length, char reason[KILN__ELF_REASON_SIZE])
{
    if (!kiln__elf_check(bytes, length, MACHINE, reason))
        return false;
    Elf64_Ehdr header = kiln__elf_header(bytes);
    if (header.e_type != ET_DYN)
        snprintf(reason, KILN__ELF_REASON_SIZE, "it is not a shared object");
    else if (header.e_phnum == 0)
        snprintf(reason, KILN__ELF_REASON_SIZE, "it has nothing to load");
    return reason[0] == '\0';
}

static void search(const kiln__compiler *compiler, kiln__text *out)
{
    kiln__text_printf(out, "program %s\nPATH %s\n", ((const cc *)compiler)->program, kiln__process_path());
}

static void options(const kiln__compiler *compiler, const kiln__unit *unit, kiln__text *out)
{
    (void)compiler;
    kiln__text_printf(out, OPTIONS, unit->includes ? "gnu17" : "c17 -nostdinc", kiln__cpu_isa());
    /* Else a mistyped name shows up as late as at dlopen, without a line. */
    kiln__text_append(out, unit->name != NULL ? " -Werror=implicit-function-declaration" : "");
}

/* The first word outside parentheses that begins with a digit, up to where it stops being a dotted number: 12.2.0 of
 * "cc (Debian 12.2.0-14+deb12u1) 12.2.0", 14.0.0 of "Ubuntu clang version 14.0.0-1ubuntu1.1". */
static void find_number(const char *line, char *out, size_t size)
{
    int depth = 0;
    char before = ' ';
    out[0] = '\0';
    for (const char *at = line; *at != '\0'; before = *at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0 && before == ' ' && *at >= '0' && *at <= '9') {
            snprintf(out, size, "%.*s", (int)strspn(at, "0123456789."), at);
            return;
        }
    }
}

/* False when out of memory. */
static bool make_id(kiln__toolchain *out, const char *banner, const char *machine)
{
    char number[32], hex[KILN__DIGEST_HEX];
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__text all = { 0 };
    const char *family = strstr(banner, "clang") != NULL                      ? "clang"
                         : strstr(banner, "Free Software Foundation") != NULL ? "gcc"
                                                                              : "cc";
    kiln__text_copy(out->version, sizeof(out->version), banner);
    out->version[strcspn(out->version, "\n")] = '\0';
    find_number(out->version, number, sizeof(number));
    kiln__text_printf(&all, "%.*s\n%s", (int)strcspn(banner, "\n"), banner, machine);
    kiln__digest(digest, kiln__text_string(&all), all.length);
    kiln__digest_hex(hex, digest);
    bool whole = !all.failed;
    kiln__text_fini(&all);
    snprintf(out->id, sizeof(out->id), "%s-%s%s%.8s", family, number, number[0] != '\0' ? "-" : "", hex);
    return whole;
}

/* The system's code in a result of kiln__process_run, for reports; an exit status is none. */
static int native_code(int rc)
{
    return rc < 0 ? -rc : 0;
}

/* The errno of the shortage, of descriptors or of processes, that a run met; 0 if it met none. The shell and the
 * compiler start programs too, and say in words that they cannot. */
static int shortage_of(int rc, const char *output)
{
    static const int errors[] = { EMFILE, ENFILE, EAGAIN };
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (rc == -errors[i] || (rc > 0 && strstr(output, strerrordesc_np(errors[i])) != NULL))
            return errors[i];
    return rc > 0 && (strstr(output, "Cannot fork") != NULL || strstr(output, "Cannot vfork") != NULL) ? EAGAIN : 0;
}

static kiln_status fail_shortage(int error, kiln_report *report)
{
    return kiln__fail_shortage(report, KILN__STAGE_COMPILE, error, "run the C compiler");
}

static kiln_status ask_compiler(const cc *self, const char *option, kiln__text *answer, kiln_report *report)
{
    const char *const argv[] = { self->program, option, NULL };
    int rc = kiln__process_run(argv, NULL, 0, TIMEOUT_MS, answer);
    if (answer->failed || rc == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (rc == 0 && answer->length > 0)
        return KILN_OK;
    int shortage = shortage_of(rc, kiln__text_string(answer));
    if (shortage != 0)
        return fail_shortage(shortage, report);
    char reason[64];
    snprintf(reason, sizeof(reason), "status %d", rc);
    return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, native_code(rc),
                      "'%s' does not answer %s as a C compiler does (%s): install gcc or clang, or set KILN_CC",
                      self->program, option, rc < 0 ? strerrordesc_np(-rc) : reason);
}

static kiln_status identify_file(const cc *self, kiln__toolchain *toolchain, kiln_report *report)
{
    kiln__text banner = { 0 }, machine = { 0 };
    kiln_status status = ask_compiler(self, "--version", &banner, report);
    if (status == KILN_OK)
        status = ask_compiler(self, "-dumpmachine", &machine, report);
    if (status == KILN_OK && !make_id(toolchain, banner.data, machine.data))
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (status == KILN_OK) {
        kiln__target_parse("cpu", 3, &toolchain->targets[0]);
        toolchain->target_count = 1;
    }
    kiln__text_fini(&banner);
    kiln__text_fini(&machine);
    return status;
}

static kiln_status fail_find(const cc *self, int error, kiln_report *report)
{
    bool elevated = kiln__trust_is_elevated();
    const char *where = strchr(self->program, '/') != NULL ? "" : elevated ? " in /usr/bin or /bin" : " on PATH";
    return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, -error,
                      "no C compiler '%s'%s: install gcc or clang%s", self->program, where,
                      elevated ? "; with raised rights the environment names none" : ", or set KILN_CC");
}

/* Finds the compiler and asks for its version. The lock is held. A compiler that was replaced since is asked again, so
 * that a long-lived process files nothing under the old one's id. */
static kiln_status find_compiler(cc *self, kiln_report *report)
{
    kiln__toolchain toolchain = { 0 };
    struct stat stamp;
    if (self->toolchain != NULL && stat(self->toolchain->path, &stamp) == 0 &&
        kiln__file_is_unchanged(&self->stamp, &stamp))
        return KILN_OK;
    kiln__free(self->toolchain);
    self->toolchain = NULL;
    int error = kiln__process_find(self->program, toolchain.path, sizeof(toolchain.path));
    if (error == 0 && stat(toolchain.path, &stamp) != 0)
        error = -errno;
    if (error != 0)
        return fail_find(self, error, report);
    kiln_status status = identify_file(self, &toolchain, report);
    if (status != KILN_OK)
        return status;
    self->toolchain = kiln__memdup(&toolchain, sizeof(toolchain));
    if (self->toolchain == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    self->stamp = stamp;
    kiln__log_line(self->log, KILN_LOG_INFO, "C compiler: %s, %s", toolchain.path, toolchain.version);
    return KILN_OK;
}

static kiln_status open_cc(kiln__compiler *compiler, kiln__toolchain *out, kiln_report *report)
{
    cc *self = (cc *)compiler;
    pthread_mutex_lock(&self->lock);
    kiln_status status = find_compiler(self, report);
    if (status == KILN_OK)
        *out = *self->toolchain;
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* Splits text at its spaces, in place. */
static size_t split(char *text, const char **argv, size_t room)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < room; word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    return count;
}

/* The compiler's first error as the message, all that it said as the log. */
static kiln_status fail_compile(const cc *self, const kiln__unit *unit, int rc, const char *log, kiln_report *report)
{
    if (rc == -ETIMEDOUT)
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, ETIMEDOUT, "'%s' did not finish within %d s: %s",
                          self->program, TIMEOUT_MS / 1000, unit->spec);
    if (rc == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    int shortage = shortage_of(rc, log);
    if (shortage != 0) {
        kiln__report_set_log(report, log);
        return fail_shortage(shortage, report);
    }
    if (rc < 0)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, -rc, "'%s' could not be started (%s)",
                          self->program, strerrordesc_np(-rc));
    kiln__report_set_log(report, log);
    const char *error = strstr(log, "error: ");
    while (error != NULL && unit->name != NULL && error > log && error[-1] != '\n')
        error--;
    if (error != NULL)
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "'%s' refused %s: %.*s", self->program,
                          unit->spec, (int)strcspn(error, "\n"), error);
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "'%s' ended with status %d for %s: see its log",
                      self->program, rc, unit->spec);
}

/* Replaces the directory of the headers, with a slash at its end, by that of the template, which the user knows. */
static void show_headers(kiln__text *log, const char *headers, const char *folder)
{
    kiln__text shown = { 0 };
    const char *at = kiln__text_string(log), *next;
    for (; folder != NULL && (next = strstr(at, headers)) != NULL; at = next + strlen(headers)) {
        kiln__text_append_bytes(&shown, at, (size_t)(next - at));
        kiln__text_printf(&shown, "%s/", folder);
    }
    kiln__text_append(&shown, at);
    kiln__text_fini(log);
    *log = shown;
}

/* Writes a file by its path in a directory. 0 or -errno. */
static int write_file(const char *directory, const char *name, const char *text, size_t length)
{
    kiln__text path = { 0 };
    kiln__text_printf(&path, "%s%s", directory, name);
    char *slash = path.failed ? NULL : strrchr(path.data, '/');
    int dir = -ENOMEM;
    if (slash != NULL) {
        *slash = '\0';
        dir = kiln__file_make_directory(path.data);
    }
    int error = dir < 0 ? dir : kiln__file_publish(dir, slash + 1, text, length, true);
    if (dir >= 0)
        close(dir);
    kiln__text_fini(&path);
    return error;
}

/* Writes the headers of a unit, and its text, below a directory. 0 or -errno. */
static int write_files(const kiln__unit *unit, const char *directory)
{
    const char *name = NULL, *text;
    int error = 0;
    while (error == 0 && kiln__list_next_pair(&unit->headers, &name, &text))
        error = write_file(directory, name, text, strlen(text));
    return error != 0 ? error : write_file(directory, WITH_THEM, unit->source, unit->source_length);
}

/* `headers` is the directory of the unit's headers, with a slash at its end. Names in the code begin behind it. */
static kiln_status run_compiler(const cc *self, const kiln__unit *unit, const char *path, const char *headers,
                                kiln__text *log, kiln_report *report)
{
    const char *argv[ARGUMENTS_MAX] = { self->program };
    char map[sizeof("-ffile-prefix-map==") + PATH_SIZE], whole[PATH_SIZE + sizeof(WITH_THEM)];
    kiln__text text = { 0 };
    options(&self->compiler, unit, &text);
    if (text.failed) {
        kiln__text_fini(&text);
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    size_t count = 1 + split(text.data, argv + 1, ARGUMENTS_MAX - 7);
    for (size_t i = 1; unit->includes && i < count; i++)
        if (strcmp(argv[i], "-") == 0)
            argv[i] = whole;
    if (unit->includes) {
        snprintf(map, sizeof(map), "-ffile-prefix-map=%s=", headers);
        snprintf(whole, sizeof(whole), "%s" WITH_THEM, headers);
        argv[count++] = "-iquote";
        argv[count++] = headers;
        argv[count++] = map;
    }
    argv[count++] = "-o";
    argv[count++] = path;
    argv[count] = NULL;
    int rc = kiln__process_run(argv, unit->source, unit->source_length, TIMEOUT_MS, log);
    kiln__text_fini(&text);
    if (unit->includes)
        show_headers(log, headers, unit->folder);
    if (log->failed)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    return rc == 0 ? KILN_OK : fail_compile(self, unit, rc, kiln__text_string(log), report);
}

static kiln_status take_object(const cc *self, const char *path, kiln__image *out, kiln_report *report)
{
    struct stat status;
    char reason[KILN__ELF_REASON_SIZE];
    int error =
        kiln__file_read(&out->binary, &out->binary_length, AT_FDCWD, path, O_NOFOLLOW, KILN__ENTRY_MAX_BYTES, &status);
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (kiln__is_shortage(-error))
        return fail_shortage(-error, report);
    if (error != 0)
        snprintf(reason, sizeof(reason), "%s",
                 error == -EFBIG ? "it is larger than any kernel" : strerrordesc_np(-error));
    else if (kiln__cc_check_object(out->binary, out->binary_length, reason))
        return KILN_OK;
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, -error, "'%s' left no usable shared object: %s",
                      self->program, reason);
}

/* Whether a checked object exports the function of kernels. */
static bool exports_entry(const void *bytes)
{
    static const char name[] = "kiln_cpu";
    const Elf64_Ehdr header = kiln__elf_header(bytes);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        const Elf64_Shdr table = kiln__elf_section(bytes, i);
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= header.e_shnum)
            continue;
        const Elf64_Shdr names = kiln__elf_section(bytes, table.sh_link);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, (const char *)bytes + table.sh_offset + at, sizeof(symbol));
            if (symbol.st_shndx != SHN_UNDEF && kiln__elf_within(symbol.st_name, sizeof(name), names.sh_size) &&
                memcmp((const char *)bytes + names.sh_offset + symbol.st_name, name, sizeof(name)) == 0)
                return true;
        }
    }
    return false;
}

/* A user's twin may lack it. A load would find that too, but without the file, and with a useless entry in the
 * stores. */
static kiln_status check_twin(const kiln__unit *unit, const kiln__image *image, kiln_report *report)
{
    if (unit->name == NULL || exports_entry(image->binary))
        return KILN_OK;
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                      "the twin exports no function kiln_cpu: define it, and begin its declaration with "
                      "__attribute__((visibility(\"default\")))");
}

static kiln_status compile(kiln__compiler *compiler, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    cc *self = (cc *)compiler;
    kiln__toolchain toolchain;
    kiln__text log = { 0 };
    char directory[1024], path[PATH_SIZE], headers[PATH_SIZE];
    memset(out, 0, sizeof(*out));
    if (unit->target.backend != KILN__BACKEND_CPU)
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "the C compiler builds for target cpu, not for '%s'", unit->target.name);
    kiln_status status = open_cc(compiler, &toolchain, report);
    if (status != KILN_OK)
        return status;
    int error = kiln__file_make_temporary(directory, sizeof(directory));
    if (error != 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, -error,
                          "no temporary directory (%s): set TMPDIR to one that can be written",
                          strerrordesc_np(-error));
    if (!atomic_flag_test_and_set(&self->swept))
        kiln__file_sweep_beside(directory);
    snprintf(path, sizeof(path), "%s/" KILN__FILE_OBJECT, directory);
    snprintf(headers, sizeof(headers), "%s" HEADERS "/", directory);
    error = unit->includes ? write_files(unit, headers) : 0;
    if (error == -ENOMEM)
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    else if (error != 0)
        status = kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, -error,
                            "a twin and its headers cannot be written to %s: %s", headers, strerrordesc_np(-error));
    else
        status = run_compiler(self, unit, path, headers, &log, report);
    if (status == KILN_OK)
        status = take_object(self, path, out, report);
    if (status == KILN_OK)
        status = check_twin(unit, out, report);
    kiln__file_remove_directory(directory);
    if (status == KILN_OK && log.length > 0)
        out->log = kiln__text_take(&log);
    kiln__text_fini(&log);
    if (status == KILN_OK)
        memcpy(out->toolchain, toolchain.id, sizeof(out->toolchain));
    else
        kiln__image_fini(out);
    return status;
}

static void close_cc(kiln__compiler *compiler)
{
    cc *self = (cc *)compiler;
    if (self == NULL)
        return;
    pthread_mutex_destroy(&self->lock);
    kiln__free(self->toolchain);
    kiln__free(self->program);
    kiln__free(self);
}

kiln__compiler *kiln__cpu_compiler_open(const char *program, const kiln__log *log)
{
    static const kiln__compiler_vtable vtable = { .name = "cc",
                                                  .search = search,
                                                  .options = options,
                                                  .open = open_cc,
                                                  .identify = open_cc,
                                                  .compile = compile,
                                                  .close = close_cc };
    cc *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->compiler.vtable = &vtable;
    self->log = log;
    atomic_flag_clear(&self->swept);
    self->program = kiln__strdup(program != NULL && program[0] != '\0' ? program : "cc");
    pthread_mutex_init(&self->lock, NULL);
    if (self->program == NULL) {
        close_cc(&self->compiler);
        return NULL;
    }
    return &self->compiler;
}
