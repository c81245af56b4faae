/* The fields of the frames between hosts and the daemon. */
#include "jit/daemon/protocol.h"

#include "base/alloc.h"
#include <string.h>

void kiln__daemon_put_hello(kiln__text *frame, const char *directory)
{
    kiln__frame_begin(frame, KILN__DAEMON_HELLO);
    kiln__frame_put_text(frame, KILN__DAEMON_TAG_VERSION, kiln_version());
    kiln__frame_put_text(frame, KILN__DAEMON_TAG_DIRECTORY, directory);
}

bool kiln__daemon_get_hello(const kiln__frame *frame, const char **directory)
{
    const char *version = kiln__frame_get_text(frame, KILN__DAEMON_TAG_VERSION);
    *directory = kiln__frame_get_text(frame, KILN__DAEMON_TAG_DIRECTORY);
    return frame->type == KILN__DAEMON_HELLO && version != NULL && strcmp(version, kiln_version()) == 0 &&
           *directory != NULL && **directory == '/';
}

void kiln__daemon_put_key(kiln__text *frame, const kiln__key *key)
{
    kiln__frame_put(frame, KILN__DAEMON_TAG_KEY, key->digest, sizeof(key->digest));
    kiln__frame_put_text(frame, KILN__DAEMON_TAG_TOOLCHAIN, key->toolchain);
}

bool kiln__daemon_get_key(const kiln__frame *frame, kiln__key *out)
{
    const kiln__frame_field *digest = kiln__frame_find(frame, KILN__DAEMON_TAG_KEY);
    const char *toolchain = kiln__frame_get_text(frame, KILN__DAEMON_TAG_TOOLCHAIN);
    memset(out, 0, sizeof(*out));
    if (digest == NULL || digest->length != sizeof(out->digest) || toolchain == NULL ||
        !kiln__worker_is_identity(toolchain))
        return false;
    memcpy(out->digest, digest->data, sizeof(out->digest));
    kiln__text_copy(out->toolchain, sizeof(out->toolchain), toolchain);
    return true;
}

void kiln__daemon_put_unit(kiln__text *frame, const kiln__unit *unit)
{
    kiln__worker_put_unit(frame, unit);
    if (unit->foreign)
        kiln__frame_put_u32(frame, KILN__DAEMON_TAG_FOREIGN, 1);
}

bool kiln__daemon_get_unit(const kiln__frame *frame, kiln__unit *out)
{
    uint32_t foreign = 0;
    const bool good = kiln__worker_get_unit(frame, out);
    out->foreign = kiln__frame_get_u32(frame, KILN__DAEMON_TAG_FOREIGN, &foreign) && foreign == 1;
    return good;
}
