/* Answers of a Redis server and URLs. The first byte: how many bytes come at once, the second: the first verb; a first
 * byte of 0 says that the rest is a URL. */
#include "remote/answers.h"
#include "fuzz/fuzz.h"
#include "remote/url.h"

#include <errno.h>
#include <stdlib.h>

enum { VALUE_MAX = 256 };

static void read_url(const uint8_t *data, size_t size)
{
    char text[1024], problem[256];
    kiln__url url;
    const size_t length = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    if (!kiln__url_read(&url, text, problem, sizeof(problem))) {
        FUZZ_REQUIRE(problem[0] != '\0', "a refusal has words");
        return;
    }
    FUZZ_REQUIRE(url.port >= 0 && url.port < 65536, "port %d", url.port);
    FUZZ_REQUIRE(url.path[0] == '\0' || url.path[0] == '/', "path %s", url.path);
}

/* Settles the answers that are whole. False: the connection would be given up. */
static bool take_answers(redisReader *reader, unsigned *verb)
{
    int error;
    while ((error = kiln__redis_check_next(reader, VALUE_MAX)) == 0) {
        void *reply = NULL;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
            return false;
        if (reply == NULL)
            return true;
        kiln__remote_request request = { .verb = (kiln__engine_verb)((*verb)++ % 5) };
        const int result = kiln__redis_result(&request, reply);
        freeReplyObject(reply);
        FUZZ_REQUIRE(result <= 0, "result %d", result);
        FUZZ_REQUIRE((request.answer != NULL) == (request.verb == KILN__ENGINE_GET && result == 0),
                     "an answer of a get");
        FUZZ_REQUIRE(request.answer_length <= VALUE_MAX, "%zu bytes", request.answer_length);
        free(request.answer);
        if (result == -EPROTO)
            return false;
    }
    FUZZ_REQUIRE(reader->len - reader->pos <= VALUE_MAX + 4096 || error != -EAGAIN, "%zu bytes wait", reader->len);
    return error == -EAGAIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[0] == 0) {
        read_url(data + 1, size - 1);
        return 0;
    }
    redisReader *reader = redisReaderCreate();
    unsigned verb = data[1];
    bool good = true;
    for (size_t at = 2; good && at < size; at += data[0]) {
        const size_t piece = size - at < data[0] ? size - at : data[0];
        good = redisReaderFeed(reader, (const char *)data + at, piece) == REDIS_OK && take_answers(reader, &verb);
    }
    redisReaderFree(reader);
    return 0;
}
