/* Rules of trust for files and directories, and the user namespace that they depend on. */
#include "os/trust.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { USUAL_OVERFLOW = 65534 };

bool kiln__trust_is_elevated(void)
{
    return getauxval(AT_SECURE) || getuid() != geteuid() || getgid() != getegid();
}

/* ---- User namespaces */

static uid_t overflow_of(const char *text)
{
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : USUAL_OVERFLOW;
    return text && end == text ? USUAL_OVERFLOW : (uid_t)value;
}

/* Whether each user is mapped to itself: "0 0 4294967295" and no more. */
static bool maps_all(const char *map)
{
    unsigned inside, outside, count;
    char more;
    return map && sscanf(map, "%u %u %u %c", &inside, &outside, &count, &more) == 3 && inside == 0 && outside == 0 &&
           count == UINT32_MAX;
}

bool kiln__trust_is_unmapped(uid_t owner, const char *overflow, const char *map)
{
    return owner == overflow_of(overflow) && !maps_all(map);
}

/* The start of a file of the kernel, NULL if it cannot be read. */
static const char *read_start(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return NULL;
    out[length] = '\0';
    return out;
}

static pthread_once_t overflow_once = PTHREAD_ONCE_INIT, map_once = PTHREAD_ONCE_INIT;
static char overflow_room[16], map_room[128];
static const char *overflow_text, *map_text;

static void read_overflow(void)
{
    overflow_text = read_start("/proc/sys/kernel/overflowuid", overflow_room, sizeof overflow_room);
}

static void read_map(void)
{
    map_text = read_start("/proc/self/uid_map", map_room, sizeof map_room);
}

/* A process keeps its namespace, so each file is read once; the map only where it decides. */
static bool is_unmapped(uid_t owner)
{
    pthread_once(&overflow_once, read_overflow);
    if (owner != overflow_of(overflow_text))
        return false;
    pthread_once(&map_once, read_map);
    return kiln__trust_is_unmapped(owner, overflow_text, map_text);
}

/* ---- Owners and modes */

/* Whether the process is a member of a group. More groups than there is room for are none. */
static bool is_member(gid_t group)
{
    gid_t groups[256];
    int count = getgroups((int)(sizeof groups / sizeof *groups), groups);
    for (int i = 0; i < count; i++)
        if (groups[i] == group)
            return true;
    return group == getegid();
}

static const char *refuse_owner(const struct stat *status, unsigned rule, char *buffer, size_t size)
{
    uid_t owner = status->st_uid;
    if (is_unmapped(owner))
        snprintf(buffer, size, "owned by user %u, which is any user that this user namespace does not map",
                 (unsigned)owner);
    else if (owner != geteuid() && !(rule != 0 && owner == 0))
        snprintf(buffer, size, "owned by user %u, expected %u%s", (unsigned)owner, (unsigned)geteuid(),
                 rule != 0 ? " or root" : "");
    else
        return NULL;
    return buffer;
}

static const char *refuse_owner_and_mode(const struct stat *status, unsigned rule, char *buffer, size_t size)
{
    mode_t mode = status->st_mode;
    const char *reason = refuse_owner(status, rule, buffer, size);
    if (reason != NULL)
        return reason;
    bool by_members = (rule & KILN__TRUST_GROUP) != 0 && is_member(status->st_gid);
    if ((mode & S_IWOTH) == 0 && ((mode & S_IWGRP) == 0 || by_members))
        return NULL;
    snprintf(buffer, size, "writable by group or others (mode %04o)", (unsigned)(mode & 07777));
    return buffer;
}

const char *kiln__trust_refuse_directory(const struct stat *status, unsigned rule, char *buffer, size_t size)
{
    return S_ISDIR(status->st_mode) ? refuse_owner_and_mode(status, rule, buffer, size) : "not a directory";
}

const char *kiln__trust_refuse_link(const struct stat *status, unsigned rule, char *buffer, size_t size)
{
    if ((rule & KILN__TRUST_GROUP) == 0)
        return "is a link, expected a regular file";
    return refuse_owner(status, rule, buffer, size);
}

const char *kiln__trust_refuse_file(const struct stat *status, unsigned rule, char *buffer, size_t size)
{
    if (!S_ISREG(status->st_mode))
        return "not a regular file";
    /* No name at all is fine: the file was removed after it was opened. */
    if ((rule & KILN__TRUST_SHARED) != 0 || status->st_nlink <= 1)
        return refuse_owner_and_mode(status, rule, buffer, size);
    snprintf(buffer, size, "has %llu names, expected 1", (unsigned long long)status->st_nlink);
    return buffer;
}
