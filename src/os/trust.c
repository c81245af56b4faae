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

static const char *refuse_unmapped(uid_t owner, char *buffer, size_t size)
{
    snprintf(buffer, size, "owned by user %u, which is any user that this user namespace does not map",
             (unsigned)owner);
    return buffer;
}

/* ---- Owners and modes */

static const char *refuse_mode(const struct stat *status, char *buffer, size_t size)
{
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return NULL;
    snprintf(buffer, size, "writable by group or others (mode %04o)", (unsigned)(status->st_mode & 07777));
    return buffer;
}

static const char *refuse_owner_and_mode(const struct stat *status, char *buffer, size_t size)
{
    if (is_unmapped(status->st_uid))
        return refuse_unmapped(status->st_uid, buffer, size);
    if (status->st_uid == geteuid())
        return refuse_mode(status, buffer, size);
    snprintf(buffer, size, "owned by user %u, expected %u", (unsigned)status->st_uid, (unsigned)geteuid());
    return buffer;
}

static const char *refuse_shared(const struct stat *status, char *buffer, size_t size)
{
    if (is_unmapped(status->st_uid))
        return refuse_unmapped(status->st_uid, buffer, size);
    if (status->st_uid == geteuid() || status->st_uid == 0)
        return refuse_mode(status, buffer, size);
    snprintf(buffer, size, "owned by user %u, expected %u or root", (unsigned)status->st_uid, (unsigned)geteuid());
    return buffer;
}

const char *kiln__trust_refuse_directory(const struct stat *status, char *buffer, size_t size)
{
    return S_ISDIR(status->st_mode) ? refuse_owner_and_mode(status, buffer, size) : "not a directory";
}

const char *kiln__trust_refuse_file(const struct stat *status, char *buffer, size_t size)
{
    if (!S_ISREG(status->st_mode))
        return "not a regular file";
    /* No link at all is fine: somebody removed the name after it was opened. */
    if (status->st_nlink > 1) {
        snprintf(buffer, size, "has %llu names, expected 1", (unsigned long long)status->st_nlink);
        return buffer;
    }
    return refuse_owner_and_mode(status, buffer, size);
}

const char *kiln__trust_refuse_shared_directory(const struct stat *status, char *buffer, size_t size)
{
    return S_ISDIR(status->st_mode) ? refuse_shared(status, buffer, size) : "not a directory";
}

const char *kiln__trust_refuse_shared_file(const struct stat *status, char *buffer, size_t size)
{
    return S_ISREG(status->st_mode) ? refuse_shared(status, buffer, size) : "not a regular file";
}
