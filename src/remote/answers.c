#include "remote/answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 4096 };

int kiln__redis_refusal(const char *text)
{
    static const struct {
        const char *word;
        int result;
    } known[] = { { "NOAUTH", -EACCES },
                  { "WRONGPASS", -EACCES },
                  { "NOPERM", -EPERM },
                  { "ERR invalid password", -EACCES },
                  { "OOM", -ENOSPC },
                  { "READONLY", -EROFS },
                  { "WRONGTYPE", -EBADMSG },
                  { "ERR AUTH", -EACCES },
                  { "ERR Client sent AUTH", -EACCES },
                  { "ERR DB index", -EINVAL },
                  { "ERR invalid DB index", -EINVAL },
                  { "LOADING", -EREMOTEIO } };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strncmp(text, known[i].word, strlen(known[i].word)) == 0)
            return known[i].result;
    return -EREMOTEIO;
}

int kiln__redis_check_next(const redisReader *reader, size_t value_max)
{
    const char *next = reader->buf + reader->pos, *end = reader->buf + reader->len;
    if (reader->ridx >= 0) /* within one that may */
        return 0;
    if (next == end)
        return -EAGAIN;
    if (*next == '\0' || strchr("+-:$_", *next) == NULL)
        return -EPROTO;
    if (memmem(next, (size_t)(end - next), "\r\n", 2) == NULL)
        return end - next > LONGEST_LINE ? -EPROTO : -EAGAIN;
    if (*next != '$')
        return 0;
    char *rest;
    const long long length = strtoll(next + 1, &rest, 10);
    return *rest != '\r' || length < -1 ? -EPROTO : length > (long long)value_max ? -EMSGSIZE : 0;
}

static int take_value(kiln__remote_request *request, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL)
        return -ENOENT;
    if (reply->type != REDIS_REPLY_STRING)
        return -EPROTO;
    request->answer = malloc((size_t)reply->len + 1);
    if (request->answer == NULL)
        return -ENOMEM;
    memcpy(request->answer, reply->str, (size_t)reply->len);
    request->answer_length = (size_t)reply->len;
    return 0;
}

int kiln__redis_result(kiln__remote_request *request, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return kiln__redis_refusal(reply->str);
    switch (request->verb) {
    case KILN__ENGINE_GET:
        return take_value(request, reply);
    case KILN__ENGINE_EXISTS:
        return reply->type != REDIS_REPLY_INTEGER ? -EPROTO : reply->integer > 0 ? 0 : -ENOENT;
    case KILN__ENGINE_TAKE:
        return reply->type == REDIS_REPLY_NIL ? -EBUSY : reply->type == REDIS_REPLY_STATUS ? 0 : -EPROTO;
    case KILN__ENGINE_PUT:
        return reply->type == REDIS_REPLY_STATUS ? 0 : -EPROTO;
    case KILN__ENGINE_GIVE:
        return reply->type == REDIS_REPLY_INTEGER ? 0 : -EPROTO;
    }
    return -EPROTO;
}
