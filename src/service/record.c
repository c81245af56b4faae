#include "service/record.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "wisdom/describe.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { LINES_MAX = 65536, FIRST_SLOTS = 64, FILE_MAX = 64 << 20, CHUNK = 1 << 16 };

/* The first line of a file that a service made; `kiln warm` reads such a file leniently. */
static const char heading[] = "# kiln record: what programs asked for, for kiln warm --manifest\n";

/* Lines are kept as digests: the text of a million requests need not stay in memory to know them again. */
typedef struct line_digest {
    uint8_t bytes[KILN__CHECKSUM_SIZE];
} line_digest;

/* An open-addressed set, at most half full; a slot of zeros is free. */
typedef struct line_set {
    line_digest *slots;
    size_t room, count;
} line_set;

struct kiln__record {
    char *path;
    const kiln__log *log;
    pthread_mutex_t lock;
    line_set asked, held; /* by this service; in the file, as far as it was read */
    struct stat file;     /* the one that `read` is about */
    uint64_t read;        /* bytes of whole lines read */
    atomic_uint_least64_t errors;
};

static size_t place(const line_set *set, const line_digest *line)
{
    static const line_digest none;
    size_t i;
    memcpy(&i, line->bytes, sizeof(i));
    for (i &= set->room - 1; memcmp(&set->slots[i], &none, sizeof(none)) != 0; i = (i + 1) & (set->room - 1))
        if (memcmp(&set->slots[i], line, sizeof(*line)) == 0)
            break;
    return i;
}

static bool has(const line_set *set, const line_digest *line)
{
    return set->room > 0 && memcmp(&set->slots[place(set, line)], line, sizeof(*line)) == 0;
}

static bool grow(line_set *set)
{
    line_set larger = { .room = set->room > 0 ? 2 * set->room : FIRST_SLOTS, .count = set->count };
    static const line_digest none;
    larger.slots = kiln__calloc(larger.room, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < set->room; i++)
        if (memcmp(&set->slots[i], &none, sizeof(none)) != 0)
            larger.slots[place(&larger, &set->slots[i])] = set->slots[i];
    kiln__free(set->slots);
    *set = larger;
    return true;
}

/* Returns false when out of memory: the line is then not in the set. */
static bool add(line_set *set, const line_digest *line)
{
    if (has(set, line))
        return true;
    if (2 * (set->count + 1) > set->room && !grow(set))
        return false;
    set->slots[place(set, line)] = *line;
    set->count++;
    return true;
}

static void forget(line_set *set)
{
    kiln__free(set->slots);
    *set = (line_set){ 0 };
}

static line_digest digest_of(const char *text, size_t length)
{
    line_digest line;
    kiln__checksum(line.bytes, text, length);
    return line;
}

kiln__record *kiln__record_open(const char *path, const kiln__log *log)
{
    kiln__record *record = kiln__calloc(1, sizeof(*record));
    if (record == NULL || (record->path = kiln__strdup(path)) == NULL) {
        kiln__free(record);
        return NULL;
    }
    record->log = log;
    pthread_mutex_init(&record->lock, NULL);
    return record;
}

void kiln__record_close(kiln__record *record)
{
    if (record == NULL)
        return;
    pthread_mutex_destroy(&record->lock);
    forget(&record->asked);
    forget(&record->held);
    kiln__free(record->path);
    kiln__free(record);
}

/* Takes the whole lines of a piece of the file; returns their length. */
static size_t take_lines(kiln__record *record, const char *text, size_t length)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(text + done, '\n', length - done)) != NULL) {
        kiln__word line = { text + done, (size_t)(end - (text + done)) };
        line = kiln__word_trim(kiln__word_cut(&line, "#"));
        line_digest digest = digest_of(line.text, line.length);
        if (line.length > 0)
            add(&record->held, &digest); /* out of memory: a line may be written twice */
        done = (size_t)(end - text) + 1;
    }
    return done;
}

/* Reads what was appended since the last time, all of it where the file is another one. *torn: its end is no line's. */
static int read_news(kiln__record *record, int fd, const struct stat *now, bool *torn)
{
    if (now->st_dev != record->file.st_dev || now->st_ino != record->file.st_ino ||
        (uint64_t)now->st_size < record->read) {
        forget(&record->held);
        record->read = 0;
    }
    record->file = *now;
    *torn = false;
    if (now->st_size > FILE_MAX)
        return -EFBIG;
    char *text = kiln__alloc(CHUNK);
    if (text == NULL)
        return -ENOMEM;
    size_t length, whole;
    int error;
    do {
        error = kiln__file_read_some(fd, text, CHUNK, record->read, &length);
        whole = error == 0 ? take_lines(record, text, length) : 0;
        *torn = whole < length;
        if (whole == 0 && length == CHUNK)
            whole = length; /* no line of ours is that long */
        record->read += whole;
    } while (error == 0 && length == CHUNK);
    kiln__free(text);
    return error;
}

/* One write, so that lines of several processes never mix. A line that another writer left torn is ended first. */
static int append(kiln__record *record, const kiln__text *line, const line_digest *digest)
{
    kiln__text out = { 0 };
    struct stat now;
    bool torn;
    int fd = kiln__file_open_append(record->path, &now);
    if (fd < 0)
        return fd;
    int error = read_news(record, fd, &now, &torn);
    if (error == 0 && !has(&record->held, digest)) {
        kiln__text_printf(&out, "%s%s%s\n", torn ? "\n" : "", now.st_size == 0 ? heading : "", kiln__text_string(line));
        error = out.failed ? -ENOMEM : kiln__file_write(fd, out.data, out.length);
    }
    kiln__sys_close(fd);
    kiln__text_fini(&out);
    return error;
}

static const char *reason(int error)
{
    switch (error) {
    case -EINVAL:
        return "it is not a regular file";
    case -EFBIG:
        return "it has more than 64 MiB";
    case -E2BIG:
        return "there are more than 65,536";
    default:
        return strerrordesc_np(-error);
    }
}

static void count_error(kiln__record *record, int error)
{
    if (atomic_fetch_add(&record->errors, 1) == 0)
        kiln__log_line(record->log, KILN_LOG_WARN, "requests are not recorded in %s: %s", record->path, reason(error));
}

static void add_line(kiln__record *record, const kiln__text *line)
{
    line_digest digest = digest_of(line->data, line->length);
    pthread_mutex_lock(&record->lock);
    if (!has(&record->asked, &digest)) {
        int error = record->asked.count == LINES_MAX ? -E2BIG : add(&record->asked, &digest) ? 0 : -ENOMEM;
        if (error == 0)
            error = append(record, line, &digest);
        if (error != 0)
            count_error(record, error);
    }
    pthread_mutex_unlock(&record->lock);
}

void kiln__record_add(kiln__record *record, const kiln__fields *asked)
{
    kiln__text line = { 0 };
    kiln__fields spec = *asked;
    spec.target_set = false;
    if (spec.dtype == KILN__DTYPE_UNSET)
        spec.dtype = kiln__template_dtype(spec.template);
    /* The geometry that is chosen may depend on the power of two, so that a record has a few lines for all sizes. */
    bool sized = spec.n_set && spec.n > 0 && kiln__wisdom_is_open(&spec);
    if (sized)
        spec.n = (uint64_t)1 << kiln__wisdom_size(spec.n);
    kiln__spec_format(&spec, sized, &line);
    if (line.failed)
        count_error(record, -ENOMEM);
    else
        add_line(record, &line);
    kiln__text_fini(&line);
}

void kiln__record_define(kiln__record *record, const char *kind, const char *text)
{
    kiln__text line = { 0 };
    kiln__text_printf(&line, "define %s %s", kind, text);
    if (line.failed)
        count_error(record, -ENOMEM);
    else
        add_line(record, &line);
    kiln__text_fini(&line);
}

uint64_t kiln__record_errors(const kiln__record *record)
{
    return record != NULL ? atomic_load(&record->errors) : 0;
}
