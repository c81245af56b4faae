/* The record of requests: lines that are known by their digests, and appended to a file that others append to as
 * well. */
#include "service/record.h"

#include "base/alloc.h"
#include "base/number.h"
#include "base/table.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "wisdom/describe.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { LINES_MAX = 65536, FILE_MAX = 64 << 20, CHUNK = 1 << 16 };

/* The first line of a file that a service made. */
static const char heading[] = KILN__RECORD_MARK ": what programs asked for, for kiln warm --manifest\n";

/* A line. Only its digest is kept: the text of a million requests need not stay in memory to know them again. */
typedef struct known_line {
    uint8_t digest[KILN__CHECKSUM_SIZE];
    UT_hash_handle hh;
} known_line;

struct kiln__record {
    char *path;
    const kiln__log *log;
    pthread_mutex_t lock;
    known_line *asked, *held; /* by this service; in the file, as far as it was read */
    struct stat file;         /* the one that `read` is about */
    uint64_t read;            /* bytes of whole lines read */
    atomic_uint_least64_t errors;
};

static bool has_line(known_line *set, const uint8_t *digest)
{
    known_line *found;
    HASH_FIND(hh, set, digest, KILN__CHECKSUM_SIZE, found);
    return found != NULL;
}

/* False: out of memory, and the line is not in the set. */
static bool add_to_set(known_line **set, const uint8_t *digest)
{
    bool added = has_line(*set, digest);
    known_line *line = added ? NULL : kiln__calloc(1, sizeof(*line));
    if (line == NULL)
        return added;
    memcpy(line->digest, digest, sizeof(line->digest));
    KILN__TABLE_ADD(*set, line->digest, sizeof(line->digest), line, added);
    if (!added)
        kiln__free(line);
    return added;
}

static void forget_lines(known_line **set)
{
    known_line *line, *next;
    HASH_ITER (hh, *set, line, next) {
        HASH_DEL(*set, line);
        kiln__free(line);
    }
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
    forget_lines(&record->asked);
    forget_lines(&record->held);
    kiln__free(record->path);
    kiln__free(record);
}

kiln__word kiln__record_line(kiln__word line)
{
    for (size_t i = 0; i < line.length; i++)
        if (line.text[i] == '#' && (i == 0 || kiln__word_is_blank(line.text[i - 1])))
            line.length = i;
    return kiln__word_trim(line);
}

/* Takes the whole lines of a piece of the file; returns their length. */
static size_t take_lines(kiln__record *record, const char *text, size_t length)
{
    size_t done = 0;
    const char *end;
    uint8_t digest[KILN__CHECKSUM_SIZE];
    while ((end = memchr(text + done, '\n', length - done)) != NULL) {
        kiln__word line = { text + done, (size_t)(end - (text + done)) };
        line = kiln__record_line(line);
        kiln__checksum(digest, line.text, line.length);
        if (line.length > 0)
            add_to_set(&record->held, digest); /* out of memory: a line may be written twice */
        done = (size_t)(end - text) + 1;
    }
    return done;
}

/* Reads the lines that were appended since the last time, or all lines of another file. *torn: the last line has no
 * end. */
static int read_news(kiln__record *record, int fd, const struct stat *now, bool *torn)
{
    if (now->st_dev != record->file.st_dev || now->st_ino != record->file.st_ino ||
        (uint64_t)now->st_size < record->read) {
        forget_lines(&record->held);
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
            whole = length; /* no line of a record is that long */
        record->read += whole;
    } while (error == 0 && length == CHUNK);
    kiln__free(text);
    return error;
}

/* One write, so that lines of several processes never mix. A line that another writer left torn is ended first. */
static int append_line(kiln__record *record, const kiln__text *line, const uint8_t *digest)
{
    kiln__text out = { 0 };
    struct stat now;
    bool torn;
    int fd = kiln__file_open_append(record->path, &now);
    if (fd < 0)
        return fd;
    int error = read_news(record, fd, &now, &torn);
    if (error == 0 && !has_line(record->held, digest)) {
        kiln__text_printf(&out, "%s%s%s\n", torn ? "\n" : "", now.st_size == 0 ? heading : "", kiln__text_string(line));
        error = out.failed ? -ENOMEM : kiln__file_write(fd, out.data, out.length);
    }
    kiln__sys_close(fd);
    kiln__text_fini(&out);
    return error;
}

static const char *describe_error(int error)
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

/* Takes over the text of a line. An error is counted, and the first one is logged. */
static void add_line(kiln__record *record, kiln__text *line)
{
    uint8_t digest[KILN__CHECKSUM_SIZE];
    int error = line->failed ? -ENOMEM : 0;
    kiln__checksum(digest, kiln__text_string(line), line->length);
    pthread_mutex_lock(&record->lock);
    if (error == 0 && !has_line(record->asked, digest)) {
        if (HASH_COUNT(record->asked) == LINES_MAX)
            error = -E2BIG;
        else
            error = add_to_set(&record->asked, digest) ? append_line(record, line, digest) : -ENOMEM;
    }
    if (error != 0 && atomic_fetch_add(&record->errors, 1) == 0)
        kiln__log_line(record->log, KILN_LOG_WARN, "requests are not recorded in %s: %s", record->path,
                       describe_error(error));
    pthread_mutex_unlock(&record->lock);
    kiln__text_fini(line);
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
    const kiln__size size = kiln__fields_size(&spec);
    spec.n = size.n;
    spec.cols = size.cols;
    kiln__spec_format(&spec, sized, &line);
    add_line(record, &line);
}

void kiln__record_define(kiln__record *record, const char *kind, const char *text)
{
    kiln__text line = { 0 };
    kiln__text_printf(&line, "define %s %s", kind, text);
    add_line(record, &line);
}

uint64_t kiln__record_errors(const kiln__record *record)
{
    return record != NULL ? atomic_load(&record->errors) : 0;
}
