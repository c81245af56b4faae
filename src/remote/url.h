/* The parts of a URL that name a server: scheme://[user:password@]host[:port][/path]. */
#ifndef KILN_REMOTE_URL_H
#define KILN_REMOTE_URL_H

#include <stdbool.h>
#include <stddef.h>

enum { KILN__URL_PART = 256 };

typedef struct kiln__url {
    char user[KILN__URL_PART], password[KILN__URL_PART], host[KILN__URL_PART];
    char path[KILN__URL_PART]; /* begins with '/', or "" */
    int port;                  /* 0: not named */
} kiln__url;

/* False: `problem` says why, and does not show the password. */
bool kiln__url_read(kiln__url *out, const char *url, char *problem, size_t room);

#endif
