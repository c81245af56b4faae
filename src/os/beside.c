#include "os/beside.h"

#include "os/trust.h"
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* From the directory of the file that holds this code; the build says which. A place in a build tree is for the files
 * of that tree: an installed library must not take a file from where it was built. */
static const struct {
    const char *tree; /* "" for every file */
    const char *directory;
} places[] = { KILN_LIBEXEC_PLACES };

/* The file that is mapped where this code is, as the kernel has it. False without /proc. */
static bool find_mapped_file(char path[PATH_MAX])
{
    char line[PATH_MAX + 128];
    uintptr_t here = (uintptr_t)places;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long long from, to;
        const char *slash = strchr(line, '/');
        found = slash != NULL && sscanf(line, "%llx-%llx", &from, &to) == 2 && here >= from && here < to;
        if (found)
            snprintf(path, PATH_MAX, "%.*s", (int)strcspn(slash, "\n"), slash);
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

static bool find_program_file(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* The directory and the owner of the file that holds this code: the shared library, or a program that it is linked
 * into. The loader's name of a library serves where it is absolute. A relative one is of a directory that the
 * process may have left, and its caller makes up a program's: there the kernel is asked. */
static bool find_own_file(char path[PATH_MAX], uid_t *owner)
{
    struct stat status;
    struct link_map *map = NULL;
    Dl_info info;
    bool library = dladdr1(places, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL && map->l_name != NULL &&
                   map->l_name[0] != '\0';
    bool found = !library                ? find_program_file(path)
                 : map->l_name[0] == '/' ? realpath(map->l_name, path) != NULL
                                         : find_mapped_file(path);
    if (!found || path[0] != '/' || stat(path, &status) != 0)
        return false;
    *owner = status.st_uid;
    *strrchr(path, '/') = '\0';
    return true;
}

static bool is_trusted_directory(const char *path, uid_t owner)
{
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IWOTH) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid() || status.st_uid == owner);
}

/* Why a file may not be used, NULL if it may. `owner` is trusted already, because that user may change this process
 * through the file of its code. A file found `beside` the library must also lie in two trusted directories,
 * libexec/kiln: a program in /tmp must not take what others left there. */
static const char *refuse_file(const char *file, uid_t owner, bool beside, char *buffer, size_t size)
{
    struct stat status;
    char path[PATH_MAX];
    kiln__text_copy(path, sizeof(path), file);
    for (int i = 0; i < 2 && beside; i++) {
        *strrchr(path, '/') = '\0';
        if (!is_trusted_directory(path, owner))
            return "in a directory that others may change";
    }
    if (stat(file, &status) != 0)
        return "not there any more";
    if (status.st_uid == owner)
        status.st_uid = geteuid();
    return kiln__trust_refuse_file(&status, KILN__TRUST_SHARED, buffer, size);
}

static bool is_in_tree(const char *directory, const char *tree)
{
    size_t length = strlen(tree);
    return length == 0 ||
           (strncmp(directory, tree, length) == 0 && (directory[length] == '/' || directory[length] == '\0'));
}

static bool is_file(const char *path, int mode)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, mode) == 0;
}

static kiln__beside_result judge(kiln__beside *out, uid_t owner, bool beside)
{
    char buffer[sizeof(out->why)];
    const char *why = refuse_file(out->path, owner, beside, buffer, sizeof(buffer));
    kiln__text_copy(out->why, sizeof(out->why), why != NULL ? why : "");
    return why != NULL ? KILN__BESIDE_REFUSED : KILN__BESIDE_FOUND;
}

kiln__beside_result kiln__beside_check(const char *path, int mode, kiln__beside *out)
{
    memset(out, 0, sizeof(*out));
    if (path[0] == '/' && is_file(path, mode) &&
        kiln__text_copy(out->path, sizeof(out->path), path) < sizeof(out->path))
        return judge(out, geteuid(), false);
    kiln__text_append(&out->looked, path);
    return KILN__BESIDE_ABSENT;
}

/* The first file that may be used counts, else the first that is refused. */
kiln__beside_result kiln__beside_find(const char *name, int mode, kiln__beside *out)
{
    char own[PATH_MAX], path[PATH_MAX];
    uid_t owner;
    kiln__beside found;
    kiln__beside_result result = KILN__BESIDE_ABSENT;
    memset(out, 0, sizeof(*out));
    if (!find_own_file(own, &owner)) {
        kiln__text_append(&out->looked, "it beside libkiln, whose own file cannot be found");
        return KILN__BESIDE_ABSENT;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && result != KILN__BESIDE_FOUND; i++) {
        const bool absolute = places[i].directory[0] == '/';
        if (!is_in_tree(own, places[i].tree))
            continue;
        int length = snprintf(path, sizeof(path), "%s%s%s/%s", absolute ? "" : own, absolute ? "" : "/",
                              places[i].directory, name);
        kiln__text_printf(&out->looked, "%s%s", out->looked.length > 0 ? ", " : "", path);
        if (length <= 0 || (size_t)length >= sizeof(path) || !is_file(path, mode) || realpath(path, found.path) == NULL)
            continue;
        const kiln__beside_result judged = judge(&found, owner, true);
        if (judged != KILN__BESIDE_FOUND && result == KILN__BESIDE_REFUSED)
            continue;
        result = judged;
        memcpy(out->path, found.path, sizeof(out->path));
        memcpy(out->why, found.why, sizeof(out->why));
    }
    return result;
}
