/* Lists of reads: their lines, and which of the files are one. */
#include "source/reads.h"

#include "base/number.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BESIDE "src"

static bool is_clean(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F)
            return false;
    return true;
}

static bool is_place(const char *text, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    return length > 0 && length < KILN__PLACE_SIZE && strspn(text, allowed) >= length;
}

bool kiln__reads_means_nothing(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

void kiln__reads_beside(char out[KILN__PLACE_SIZE], size_t file)
{
    snprintf(out, KILN__PLACE_SIZE, BESIDE "%u", (unsigned)(file <= KILN__READS_FILES_MAX ? file : 0));
}

int kiln__reads_file_of(const char *place)
{
    uint64_t file = 0;
    char name[KILN__PLACE_SIZE];
    const char *number = place + sizeof(BESIDE) - 1;
    if (strncmp(place, BESIDE, sizeof(BESIDE) - 1) != 0 || !kiln__number_parse_uint(number, strlen(number), &file))
        return -1;
    kiln__reads_beside(name, file);
    return strcmp(name, place) == 0 ? (int)file : -1;
}

bool kiln__reads_split(const char *asked, char place[KILN__PLACE_SIZE], char path[KILN__READ_PATH_MAX])
{
    static const char root[] = KILN__READS_ROOT "/";
    if (strncmp(asked, root, sizeof(root) - 1) != 0)
        return false;
    asked += sizeof(root) - 1;
    size_t length = strcspn(asked, "/");
    const char *rest = asked + length + (asked[length] == '/');
    if (!is_place(asked, length) || *rest == '<' || strlen(rest) >= KILN__READ_PATH_MAX ||
        !is_clean(rest, strlen(rest)))
        return false;
    memcpy(place, asked, length);
    place[length] = '\0';
    kiln__text_copy(path, KILN__READ_PATH_MAX, rest);
    return true;
}

void kiln__reads_add(kiln__text *reads, const kiln__read *read)
{
    kiln__text_printf(reads, "%c %s ", (char)read->kind, read->place);
    if (read->kind == KILN__READ_SAME)
        kiln__text_printf(reads, "%u %s\n", (unsigned)read->same, read->path);
    else
        kiln__text_printf(reads, "%s %s\n", read->kind == KILN__READ_FILE ? read->digest : "-", read->path);
}

/* Takes the word at *at and the blank behind it. */
static bool take_word(const char **at, const char *end, char *out, size_t size)
{
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    size_t length = blank != NULL ? (size_t)(blank - *at) : 0;
    if (blank == NULL || length == 0 || length >= size || !is_clean(*at, length))
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at = blank + 1;
    return true;
}

/* Reads the part between place and path: a digest, the number of another line, or nothing. */
static bool read_contents(kiln__read *read)
{
    uint64_t number = 0;
    read->same = 0;
    if (read->kind == KILN__READ_SAME) {
        if (read->digest[0] == '0' || !kiln__number_parse_uint(read->digest, strlen(read->digest), &number) ||
            number > UINT32_MAX)
            return false;
        read->same = (uint32_t)number;
        kiln__text_copy(read->digest, sizeof(read->digest), "-");
        return true;
    }
    if (read->kind != KILN__READ_FILE)
        return strcmp(read->digest, "-") == 0;
    return strlen(read->digest) == KILN__DIGEST_HEX - 1 &&
           strspn(read->digest, "0123456789abcdef") == KILN__DIGEST_HEX - 1;
}

bool kiln__reads_next(const char **at, const char *end, kiln__read *out)
{
    char kind[2];
    const char *newline = memchr(*at, '\n', (size_t)(end - *at)), *from = *at;
    if (newline == NULL || !take_word(&from, newline, kind, sizeof(kind)) ||
        !take_word(&from, newline, out->place, sizeof(out->place)) ||
        !take_word(&from, newline, out->digest, sizeof(out->digest)))
        return false;
    size_t length = (size_t)(newline - from);
    if (strchr("+=/-", kind[0]) == NULL || length >= sizeof(out->path) || !is_clean(from, length) ||
        !is_place(out->place, strlen(out->place)))
        return false;
    out->kind = (kiln__read_kind)kind[0];
    memcpy(out->path, from, length);
    out->path[length] = '\0';
    *at = newline + 1;
    return read_contents(out);
}

bool kiln__reads_are_sound(const char *reads, size_t length)
{
    const char *at = reads, *end = reads + length;
    kiln__read read;
    uint32_t files = 0;
    while (at < end) {
        if (!kiln__reads_next(&at, end, &read) || read.same > files)
            return false;
        files += read.kind == KILN__READ_FILE || read.kind == KILN__READ_SAME;
    }
    return true;
}

void kiln__reads_contents(kiln__text *out, const char *reads, size_t length)
{
    const char *at = reads, *end = reads + length;
    kiln__read read;
    while (at < end && kiln__reads_next(&at, end, &read))
        if (read.kind == KILN__READ_FILE || read.kind == KILN__READ_SAME)
            kiln__reads_add(out, &read);
}

/* ---- Which files are one */

static int compare_numbers(const void *left, const void *right)
{
    const kiln__read_identity *a = left, *b = right;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_identities(const void *left, const void *right)
{
    const kiln__read_identity *a = left, *b = right;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    return compare_numbers(left, right);
}

void kiln__reads_find_same(kiln__read_identity *files, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        files[i].number = (uint32_t)i + 1;
    qsort(files, count, sizeof(*files), compare_identities);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && files[i].device == files[i - 1].device && files[i].inode == files[i - 1].inode;
        files[i].first = same ? files[i - 1].first : files[i].number;
    }
    qsort(files, count, sizeof(*files), compare_numbers);
}
