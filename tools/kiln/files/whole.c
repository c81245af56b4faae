/* Makes and reads whole texts. */
#include "files/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"

void draft_begin(struct draft *out)
{
    *out = (struct draft){ .text = NULL };
    out->stream = open_memstream(&out->text, &out->length);
    if (!out->stream)
        out_of_memory();
}

void draft_end(struct draft *draft)
{
    bool failed = ferror(draft->stream) != 0;
    if (fclose(draft->stream) != 0 || failed)
        out_of_memory();
    need_keep(draft->text);
}

int whole_stream(char **out, size_t *length, FILE *stream, size_t most)
{
    size_t room = 1 << 15;
    *out = NULL;
    *length = 0;
    do {
        room *= 2;
        *out = need_array(*out, room + 1, 1);
        *length += fread(*out + *length, 1, room - *length, stream);
    } while (*length == room && *length <= most);
    (*out)[*length] = '\0';
    return ferror(stream) ? errno : 0;
}

FILE *whole_open(const char *path)
{
    if (strcmp(path, "-") != 0)
        return fopen(path, "re");
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

static int copy_stdin(int fd)
{
    char bytes[1 << 16];
    ssize_t got;
    while ((got = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
        for (ssize_t done = 0, put; done < got; done += put)
            if ((put = write(fd, bytes + done, (size_t)(got - done))) < 0)
                return -1;
    return got < 0 ? -1 : 0;
}

int whole_place_open(struct whole_place *out, const char *path, bool input)
{
    const char *directory = getenv("TMPDIR");
    *out = (struct whole_place){ .path = path };
    if (strcmp(path, "-") != 0)
        return STATUS_DONE;
    out->temporary = need_format("%s/kiln-XXXXXX", directory && *directory ? directory : "/tmp");
    out->path = out->temporary;
    int fd = mkostemp(out->temporary, O_CLOEXEC);
    bool good = fd >= 0 && (!input || copy_stdin(fd) == 0);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        error = errno;
        good = false;
    }
    return good ? STATUS_DONE
                : fail(STATUS_USAGE, "%s: cannot be written for a standard stream: %s", out->path, strerror(error));
}

void whole_place_close(struct whole_place *place)
{
    if (place->temporary)
        unlink(place->temporary);
    place->temporary = NULL;
}

int whole_file(char **out, size_t *length, const char *path, size_t most)
{
    FILE *file = whole_open(path);
    int error = file ? whole_stream(out, length, file, most) : errno;
    if (file)
        fclose(file);
    if (error)
        return fail(STATUS_USAGE, "cannot read %s: %s", path, strerror(error));
    if (*length > most)
        return fail(STATUS_USAGE, "%s has more than %zu MiB", path, most >> 20);
    return STATUS_DONE;
}
