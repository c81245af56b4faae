/* Makes and reads whole texts. */
#include "files/whole.h"

#include <errno.h>
#include <string.h>

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

int whole_file(char **out, size_t *length, const char *path, size_t most)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    int error = file ? whole_stream(out, length, file, most) : errno;
    if (file && !standard)
        fclose(file);
    if (error)
        return fail(STATUS_USAGE, "cannot read %s: %s", path, strerror(error));
    if (*length > most)
        return fail(STATUS_USAGE, "%s has more than %zu MiB", path, most >> 20);
    return STATUS_DONE;
}
