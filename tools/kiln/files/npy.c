/* Reads and writes .npy files, whose headers are literals of Python. */
#include "files/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common.h"

/* Of two types with one descr the first is that of a file. */
static const dtype types[] = {
    { "f16", "<f2", 2, true },  { "f32", "<f4", 4, true },    { "f64", "<f8", 8, true },    { "i8", "|i1", 1, true },
    { "i16", "<i2", 2, true },  { "i32", "<i4", 4, true },    { "i64", "<i8", 8, true },    { "u8", "|u1", 1, true },
    { "bool", "|b1", 1, true }, { "u16", "<u2", 2, false },   { "u32", "<u4", 4, false },   { "u64", "<u8", 8, false },
    { "bf16", "<u2", 2, true }, { "f8e4m3", "|u1", 1, true }, { "f8e5m2", "|u1", 1, true },
};

const dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const dtype *dtype_of_descr(const char *descr)
{
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(types[i].descr, descr) == 0)
            return &types[i];
    return NULL;
}

/* "<f2, <f4, ... or <u8". */
static char *list_descrs(void)
{
    char *text = need_copy("");
    size_t last = COUNT_OF(types) - 1;
    while (dtype_of_descr(types[last].descr) != &types[last])
        last--;
    for (size_t i = 0; i <= last; i++)
        if (dtype_of_descr(types[i].descr) == &types[i])
            text_append(&text, i < last ? ", " : " or ", "%s", types[i].descr);
    return text;
}

/* ---- The header's dictionary */

struct header {
    const char *at, *end;
    char descr[16]; /* empty when the type is not a plain string */
    bool structured, fortran, too_long;
    bool has_descr, has_order, has_shape;
    npy_array *array;
};

static void skip_blanks(struct header *header)
{
    while (header->at < header->end && strchr(" \t\r\n", *header->at) && *header->at)
        header->at++;
}

static bool take_char(struct header *header, char c)
{
    skip_blanks(header);
    bool found = header->at < header->end && *header->at == c;
    header->at += found;
    return found;
}

static bool take_word(struct header *header, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

/* A quoted string without escapes; longer ones are cut, which no known type or key is. */
static bool take_string(struct header *header, char *text, size_t room)
{
    skip_blanks(header);
    if (header->at >= header->end || (*header->at != '\'' && *header->at != '"'))
        return false;
    char quote = *header->at++;
    size_t length = 0;
    for (; header->at < header->end && *header->at != quote; header->at++)
        if (*header->at == '\\' || *header->at == '\n' || *header->at == '\0')
            return false;
        else if (length + 1 < room)
            text[length++] = *header->at;
    text[length] = '\0';
    return header->at++ < header->end;
}

/* A list of fields, which is skipped: brackets and strings must balance. */
static bool skip_list(struct header *header)
{
    int depth = 0;
    char text[2];
    do {
        skip_blanks(header);
        if (header->at >= header->end)
            return false;
        if (*header->at == '\'' || *header->at == '"') {
            if (!take_string(header, text, sizeof(text)))
                return false;
            continue;
        }
        depth += *header->at == '[' || *header->at == '(';
        depth -= *header->at == ']' || *header->at == ')';
        header->at++;
    } while (depth > 0);
    return true;
}

static bool take_descr(struct header *header)
{
    skip_blanks(header);
    header->structured = header->at < header->end && *header->at == '[';
    if (header->structured)
        return skip_list(header);
    return take_string(header, header->descr, sizeof(header->descr));
}

static bool take_order(struct header *header)
{
    header->fortran = take_word(header, "True");
    return header->fortran || take_word(header, "False");
}

static bool take_dimension(struct header *header)
{
    npy_array *array = header->array;
    skip_blanks(header);
    const char *start = header->at;
    uint64_t value = 0;
    for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*header->at - '0'), &value))
            header->too_long = true;
    if (header->at == start)
        return false;
    if (header->at < header->end && *header->at == 'L')
        header->at++;
    if (array->dimensions == NPY_MOST_DIMENSIONS)
        header->too_long = true;
    else
        array->shape[array->dimensions++] = value;
    return true;
}

static bool take_shape(struct header *header)
{
    header->array->dimensions = 0;
    if (!take_char(header, '('))
        return false;
    if (take_char(header, ')'))
        return true;
    while (take_dimension(header)) {
        bool comma = take_char(header, ',');
        if (take_char(header, ')')) /* "(3)" is a number in Python, not a shape */
            return comma || header->array->dimensions > 1;
        if (!comma)
            return false;
    }
    return false;
}

static bool take_item(struct header *header)
{
    char key[16];
    if (!take_string(header, key, sizeof(key)) || !take_char(header, ':'))
        return false;
    bool *seen = strcmp(key, "descr") == 0           ? &header->has_descr
                 : strcmp(key, "fortran_order") == 0 ? &header->has_order
                 : strcmp(key, "shape") == 0         ? &header->has_shape
                                                     : NULL;
    if (!seen || *seen)
        return false;
    *seen = true;
    return seen == &header->has_descr   ? take_descr(header)
           : seen == &header->has_order ? take_order(header)
                                        : take_shape(header);
}

static bool take_dictionary(struct header *header)
{
    if (!take_char(header, '{'))
        return false;
    for (bool more = true; !take_char(header, '}'); more = take_char(header, ','))
        if (!more || !take_item(header))
            return false;
    skip_blanks(header);
    return header->at == header->end && header->has_descr && header->has_order && header->has_shape;
}

/* The type of a descr in either byte order, which bytes have none of: some libraries write "<u1". NULL: none. */
static const dtype *type_of_file(const char *descr)
{
    for (size_t i = 0; i < COUNT_OF(types) && descr[0]; i++)
        if (strcmp(types[i].descr + 1, descr + 1) == 0)
            return strchr(types[i].size == 1 ? "|<>" : "<>", descr[0]) ? &types[i] : NULL;
    return NULL;
}

static int take_type(const struct header *header)
{
    npy_array *array = header->array;
    const dtype *type = type_of_file(header->descr);
    if (header->structured)
        return fail(STATUS_USAGE, "%s: has a structured dtype; save one field of it, of %s", array->path,
                    list_descrs());
    if (strchr(header->descr, 'O'))
        return fail(STATUS_USAGE, "%s: holds Python objects; save numbers: %s", array->path, list_descrs());
    if (!type)
        return fail(STATUS_USAGE, "%s: has dtype %s; expected %s, or one of them in big-endian order (>)", array->path,
                    header->descr, list_descrs());
    memcpy(array->descr, type->descr, sizeof(array->descr));
    array->element_size = type->size;
    array->big_endian = type->size > 1 && header->descr[0] == '>';
    return STATUS_DONE;
}

static int count_elements(npy_array *array)
{
    bool overflow = false, empty = false;
    array->elements = 1;
    for (uint32_t i = 0; i < array->dimensions; i++) {
        empty = empty || array->shape[i] == 0;
        overflow = overflow || __builtin_mul_overflow(array->elements, array->shape[i], &array->elements);
    }
    if (empty)
        array->elements = 0;
    else if (overflow || __builtin_mul_overflow(array->elements, array->element_size, &array->bytes) ||
             array->bytes > INT64_MAX)
        return fail(STATUS_USAGE, "%s: its shape is too large for any memory", array->path);
    array->bytes = array->elements * array->element_size;
    return STATUS_DONE;
}

/* Both orders are one unless two extents at least are above 1. */
static bool orders_differ(const npy_array *array)
{
    uint32_t above_one = 0;
    for (uint32_t i = 0; i < array->dimensions; i++)
        above_one += array->shape[i] > 1;
    return array->elements > 0 && above_one > 1;
}

int npy_parse_header(npy_array *out, const char *text, size_t length)
{
    struct header header = { .at = text, .end = text + length, .array = out };
    if (!take_dictionary(&header))
        return fail(STATUS_USAGE, "%s: is not a .npy file: its header is malformed", out->path);
    if (header.too_long)
        return fail(STATUS_USAGE, "%s: its shape is too large: at most %d dimensions that fit in memory are read",
                    out->path, NPY_MOST_DIMENSIONS);
    int status = take_type(&header);
    if (!status)
        status = count_elements(out);
    out->fortran = !status && header.fortran && orders_differ(out);
    return status;
}

/* ---- Files */

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

/* The size of a regular file shows missing or surplus data before memory is taken for it. */
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
    bool standard = strcmp(path, "-") == 0;
    *out = (npy_array){ .path = standard ? "standard input" : path };
    out->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0)
        return fail(STATUS_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    uint32_t header_length = 0, data_offset = 0;
    int status = read_prologue(out, &header_length, &data_offset);
    if (status)
        return status;
    char *text = need_alloc(header_length);
    status = read_part(out, "header", text, header_length);
    if (!status)
        status = npy_parse_header(out, text, header_length);
    return status ? status : check_size(out, data_offset);
}

/* ---- Byte order and memory order */

enum { SWAP_BYTES = 1 << 18, BOX_BYTES = 1 << 11 }; /* for caches of the second level and of the first */
enum { LARGE_PAGE = 2 << 20 };

static void swap_elements(unsigned char *data, uint64_t bytes, uint32_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    for (uint64_t at = 0; at < bytes; at += size)
        if (size == 2) {
            memcpy(&two, data + at, 2);
            two = __builtin_bswap16(two);
            memcpy(data + at, &two, 2);
        } else if (size == 4) {
            memcpy(&four, data + at, 4);
            four = __builtin_bswap32(four);
            memcpy(data + at, &four, 4);
        } else {
            memcpy(&eight, data + at, 8);
            eight = __builtin_bswap64(eight);
            memcpy(data + at, &eight, 8);
        }
}

/* Reads the data as it stands in the file, but little endian: bytes are swapped while a cache has them. */
static int read_data(const npy_array *array, void *data)
{
    uint64_t part = array->big_endian ? SWAP_BYTES : array->bytes;
    for (uint64_t have = 0; have < array->bytes;) {
        uint64_t want = array->bytes - have < part ? array->bytes - have : part;
        int64_t got = read_up_to(array->fd, (unsigned char *)data + have, want);
        if (got < 0)
            return fail(STATUS_USAGE, "%s: cannot be read: %s", array->path, strerror(errno));
        if ((uint64_t)got < want)
            return truncated(array, "data", array->bytes, have + (uint64_t)got);
        if (array->big_endian)
            swap_elements((unsigned char *)data + have, want, array->element_size);
        have += want;
    }
    return STATUS_DONE;
}

/* A part of an array of several dimensions, whose elements move from one memory order to the other. */
struct box {
    uint32_t size, dimensions;
    uint64_t extent[NPY_MOST_DIMENSIONS];
    uint64_t from_stride[NPY_MOST_DIMENSIONS], to_stride[NPY_MOST_DIMENSIONS]; /* in bytes */
};

/* Moves the elements from dimension d on, the last of which are neighbours at `to`. */
static void move_elements(const struct box *box, uint32_t d, unsigned char *to, const unsigned char *from)
{
    uint64_t count = box->extent[d], stride = box->from_stride[d];
    if (d + 1 < box->dimensions)
        for (uint64_t i = 0; i < count; i++)
            move_elements(box, d + 1, to + i * box->to_stride[d], from + i * stride);
    else if (box->size == 1)
        for (uint64_t i = 0; i < count; i++)
            to[i] = from[i * stride];
    else if (box->size == 2)
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + 2 * i, from + i * stride, 2);
    else if (box->size == 4)
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + 4 * i, from + i * stride, 4);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + 8 * i, from + i * stride, 8);
}

/* How many bytes a dimension spans in the order in which its elements are nearer to each other. */
static uint64_t span_of(const struct box *box, uint32_t d)
{
    return box->extent[d] * (box->from_stride[d] < box->to_stride[d] ? box->from_stride[d] : box->to_stride[d]);
}

/* Halves the dimension that spans most until the box fits in a cache. Its elements are then in long runs in both
 * orders, so that each cache line is used whole while it is there. */
static void move_box(struct box *box, unsigned char *to, const unsigned char *from)
{
    uint32_t longest = 0;
    uint64_t bytes = box->size;
    for (uint32_t d = 0; d < box->dimensions; d++) {
        bytes *= box->extent[d];
        if (box->extent[d] > 1 && (box->extent[longest] == 1 || span_of(box, d) > span_of(box, longest)))
            longest = d;
    }
    if (bytes <= BOX_BYTES) {
        move_elements(box, 0, to, from);
        return;
    }
    uint64_t whole = box->extent[longest], half = whole / 2;
    box->extent[longest] = half;
    move_box(box, to, from);
    box->extent[longest] = whole - half;
    move_box(box, to + half * box->to_stride[longest], from + half * box->from_stride[longest]);
    box->extent[longest] = whole;
}

/* Extents of 1 have no part in either order. */
static void order_as_c(const npy_array *array, unsigned char *to, const unsigned char *from)
{
    struct box box = { .size = array->element_size };
    uint64_t from_stride = box.size, to_stride = box.size;
    for (uint32_t d = 0; d < array->dimensions; d++)
        if (array->shape[d] > 1)
            box.extent[box.dimensions++] = array->shape[d];
    for (uint32_t d = 0; d < box.dimensions; d++) {
        box.from_stride[d] = from_stride;
        from_stride *= box.extent[d];
    }
    for (uint32_t d = box.dimensions; d-- > 0;) {
        box.to_stride[d] = to_stride;
        to_stride *= box.extent[d];
    }
    move_box(&box, to, from);
}

/* Large pages, where the system grants them, save a third of the time: each row of a box is on another page. */
static int read_fortran(const npy_array *array, void *data)
{
    void *copy = NULL;
    if (posix_memalign(&copy, LARGE_PAGE, array->bytes) != 0)
        return fail(STATUS_FAILED, "%s: no memory to bring its %" PRIu64 " bytes from Fortran order into C order",
                    array->path, array->bytes);
    madvise(copy, array->bytes, MADV_HUGEPAGE);
    int status = read_data(array, copy);
    if (!status)
        order_as_c(array, data, copy);
    free(copy);
    return status;
}

int npy_read(npy_array *array, void *data)
{
    char extra;
    int status = array->fortran ? read_fortran(array, data) : read_data(array, data);
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

char *npy_descr_text(const npy_array *array)
{
    return need_format("%s%s", array->big_endian ? ">" : "", array->descr + array->big_endian);
}

char *npy_shape_text(const npy_array *array)
{
    char *text = need_copy("");
    for (uint32_t i = 0; i < array->dimensions; i++)
        text_append(&text, ", ", "%" PRIu64, array->shape[i]);
    return need_format("(%s%s)", text, array->dimensions == 1 ? "," : "");
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
    *out = header;
    return whole;
}
