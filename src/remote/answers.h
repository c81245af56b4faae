/* Answers of Redis, as hostile as any bytes of a network. */
#ifndef KILN_REMOTE_ANSWERS_H
#define KILN_REMOTE_ANSWERS_H

#include "remote/requests.h"
#include <hiredis/hiredis.h>

/* Whether the answer that begins next in a reader's bytes may be read: no call has a list for an answer, which a few
 * bytes could make huge, nor a value above value_max. 0, -EAGAIN where more bytes tell, -EPROTO, -EMSGSIZE. */
int kiln__redis_check_next(const redisReader *reader, size_t value_max);

/* The result of a request by its answer; the answer's value goes into the request. -EPROTO: it is no answer to that. */
int kiln__redis_result(kiln__remote_request *request, const redisReply *reply);

/* The result for an error of the server. */
int kiln__redis_refusal(const char *text);

#endif
