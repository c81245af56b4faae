#include "os/trust.h"

#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

bool kiln__trust_is_elevated(void)
{
    return getauxval(AT_SECURE) || getuid() != geteuid() || getgid() != getegid();
}

static const char *refuse_mode(const struct stat *status, char *buffer, size_t size)
{
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return NULL;
    snprintf(buffer, size, "writable by group or others (mode %04o)", (unsigned)(status->st_mode & 07777));
    return buffer;
}

static const char *refuse_owner_and_mode(const struct stat *status, char *buffer, size_t size)
{
    if (status->st_uid == geteuid())
        return refuse_mode(status, buffer, size);
    snprintf(buffer, size, "owned by user %u, expected %u", (unsigned)status->st_uid, (unsigned)geteuid());
    return buffer;
}

static const char *refuse_shared(const struct stat *status, char *buffer, size_t size)
{
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
