#include "remote/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *found = isxdigit((unsigned char)c) ? strchr(digits, tolower(c)) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* Copies a part and undoes %XX. False: it is too long, or has a wrong % or a zero byte. */
static bool copy_part(char out[KILN__URL_PART], const char *from, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++, count++) {
        if (count == KILN__URL_PART - 1)
            return false;
        out[count] = from[i];
        if (from[i] != '%')
            continue;
        const int high = i + 2 < length ? hex_digit(from[i + 1]) : -1;
        const int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
        if (low < 0 || high * 16 + low == 0)
            return false;
        out[count] = (char)(high * 16 + low);
        i += 2;
    }
    out[count] = '\0';
    return true;
}

/* The text from `from` to `end`. */
static bool read_login(kiln__url *out, const char *from, const char *end)
{
    const char *colon = memchr(from, ':', (size_t)(end - from));
    const char *password = colon != NULL ? colon + 1 : from;
    return copy_part(out->password, password, (size_t)(end - password)) &&
           (colon == NULL || copy_part(out->user, from, (size_t)(colon - from)));
}

static bool read_port(kiln__url *out, const char *from, const char *end)
{
    char *rest;
    const long port = strtol(from, &rest, 10);
    out->port = (int)port;
    return rest == end && isdigit((unsigned char)*from) && port > 0 && port < 65536;
}

static bool read_host(kiln__url *out, const char *from, const char *end)
{
    const bool bracketed = from < end && *from == '[';
    const char *stop = bracketed ? memchr(from, ']', (size_t)(end - from)) : memchr(from, ':', (size_t)(end - from));
    const char *behind = stop == NULL ? end : bracketed ? stop + 1 : stop;
    if (bracketed && stop == NULL)
        return false;
    from += bracketed;
    return copy_part(out->host, from, (size_t)((stop != NULL ? stop : end) - from)) &&
           (behind == end || (*behind == ':' && read_port(out, behind + 1, end)));
}

bool kiln__url_read(kiln__url *out, const char *url, char *problem, size_t room)
{
    const char *from = strstr(url, "://");
    memset(out, 0, sizeof(*out));
    from = from != NULL ? from + 3 : url + strlen(url);
    const char *end = from + strcspn(from, "/"), *at = NULL;
    for (const char *p = from; p < end; p++)
        at = *p == '@' ? p : at;
    if (!copy_part(out->path, end, strlen(end)) || (at != NULL && !read_login(out, from, at)) ||
        !read_host(out, at != NULL ? at + 1 : from, end)) {
        snprintf(problem, room, "expected scheme://[user:password@]host[:port][/path], with %%XX for other characters");
        return false;
    }
    return true;
}
