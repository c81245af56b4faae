#include "files/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common.h"
#include "files/npyheader.h"

enum { PROLOGUE = 8, LONGEST_HEADER = 1 << 20, ALIGNMENT = 64 };

/* Reads up to `bytes`; returns how many came before the end of the file, or -1 with errno set. */
static int64_t read_up_to(int fd, void *data, uint64_t bytes)
{
    uint64_t have = 0;
    while (have < bytes) {
        uint64_t part = bytes - have < (1u << 30) ? bytes - have : 1u << 30;
        ssize_t got = read(fd, (char *)data + have, part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (uint64_t)got;
    }
    return (int64_t)have;
}

static int truncated(const npy_array *array, const char *where, uint64_t want, uint64_t have)
{
    return fail(STATUS_USAGE, "%s: is truncated: its %s should have %" PRIu64 " bytes and has %" PRIu64, array->path,
                where, want, have);
}

/* Reads exactly `bytes` of the named part of the file. */
static int read_part(const npy_array *array, const char *where, void *data, uint64_t bytes)
{
    int64_t have = read_up_to(array->fd, data, bytes);
    if (have < 0)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", array->path, strerror(errno));
    return (uint64_t)have == bytes ? STATUS_DONE : truncated(array, where, bytes, (uint64_t)have);
}

/* Reads the magic, the version and the header's length. */
static int read_prologue(const npy_array *array, uint32_t *header_length, uint32_t *data_offset)
{
    unsigned char start[PROLOGUE], length[4] = { 0 };
    int64_t have = read_up_to(array->fd, start, sizeof(start));
    if (have < 0)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", array->path, strerror(errno));
    if (have < PROLOGUE || memcmp(start, "\x93NUMPY", 6) != 0)
        return fail(STATUS_USAGE, "%s: is not a .npy file%s", array->path, have == 0 ? ": it is empty" : "");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return fail(STATUS_USAGE, "%s: has .npy version %u.%u; 1.0, 2.0 and 3.0 are read", array->path, start[6],
                    start[7]);
    uint32_t width = start[6] == 1 ? 2 : 4;
    int status = read_part(array, "header length", length, width);
    if (status)
        return status;
    *header_length = length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 | (uint32_t)length[3] << 24;
    *data_offset = PROLOGUE + width + *header_length;
    if (*header_length > LONGEST_HEADER)
        return fail(STATUS_USAGE, "%s: is not a .npy file: its header claims %" PRIu32 " bytes", array->path,
                    *header_length);
    return STATUS_DONE;
}

/* A regular file's size tells what is missing or too much before memory is taken for the data. */
static int check_size(const npy_array *array, uint64_t data_offset)
{
    struct stat info;
    if (fstat(array->fd, &info) != 0)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", array->path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return STATUS_DONE;
    uint64_t have = (uint64_t)info.st_size > data_offset ? (uint64_t)info.st_size - data_offset : 0;
    if (have < array->bytes)
        return truncated(array, "data", array->bytes, have);
    if (have > array->bytes)
        return fail(STATUS_USAGE, "%s: has %" PRIu64 " bytes after its data", array->path, have - array->bytes);
    return STATUS_DONE;
}

int npy_open(npy_array *out, const char *path)
{
    *out = (npy_array){ .path = path, .fd = open(path, O_RDONLY | O_CLOEXEC) };
    if (out->fd < 0)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    uint32_t header_length = 0, data_offset = 0;
    int status = read_prologue(out, &header_length, &data_offset);
    if (status)
        return status;
    char *text = need_alloc(header_length);
    status = read_part(out, "header", text, header_length);
    if (!status)
        status = npyheader_parse(out, text, header_length);
    free(text);
    return status ? status : check_size(out, data_offset);
}

int npy_read(npy_array *array, void *data)
{
    char extra;
    int status = read_part(array, "data", data, array->bytes);
    if (!status && read_up_to(array->fd, &extra, 1) == 1)
        status = fail(STATUS_USAGE, "%s: has bytes after its data", array->path);
    return status;
}

void npy_close(npy_array *array)
{
    if (array->fd >= 0)
        close(array->fd);
    array->fd = -1;
}

bool npy_same_shape(const npy_array *a, const npy_array *b)
{
    return a->dimensions == b->dimensions && memcmp(a->shape, b->shape, a->dimensions * sizeof(a->shape[0])) == 0;
}

char *npy_shape_text(const npy_array *array)
{
    char *text = need_copy("(");
    for (uint32_t i = 0; i < array->dimensions; i++) {
        const char *after = array->dimensions == 1 ? "," : i + 1 < array->dimensions ? ", " : "";
        char *longer = need_format("%s%" PRIu64 "%s", text, array->shape[i], after);
        free(text);
        text = longer;
    }
    char *whole = need_format("%s)", text);
    free(text);
    return whole;
}

size_t npy_header(char **out, const npy_array *array)
{
    char *shape = npy_shape_text(array);
    char *text = need_format("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", array->descr, shape);
    size_t used = PROLOGUE + 2 + strlen(text) + 1;
    size_t whole = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t header_length = whole - PROLOGUE - 2;
    char *header = need_alloc(whole);
    memcpy(header, "\x93NUMPY\x01\x00", PROLOGUE);
    header[PROLOGUE] = (char)(header_length & 0xff);
    header[PROLOGUE + 1] = (char)(header_length >> 8);
    memset(header + PROLOGUE + 2, ' ', header_length);
    memcpy(header + PROLOGUE + 2, text, strlen(text));
    header[whole - 1] = '\n';
    free(text);
    free(shape);
    *out = header;
    return whole;
}
