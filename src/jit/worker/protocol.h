/* The protocol between a service and its compile workers: frames on the worker's descriptor 0, a stream socket.
 * The host asks, the worker answers each request before it reads the next. Both sides are of one Kiln version, which
 * OPEN checks.
 *
 *     OPEN      version, NVRTC's path if one is wanted, the
 *               linker's files if it is to link, the
 *               directories that sources may read        -> TOOLCHAIN or FAILED; the first request, once
 *     IDENTIFY                                           -> TOOLCHAIN or FAILED
 *     COMPILE   source, spec, target, entry points; the
 *               name and lists of a user's source        -> BEGUN, then IMAGE or FAILED
 *
 * BEGUN comes before the compiler sees anything of the source: a worker that dies earlier was not killed by it. A
 * worker whose compile dies by a signal says so with CRASHED, if it still can. It ends when the other end of the
 * socket is closed. */
#ifndef KILN_JIT_WORKER_PROTOCOL_H
#define KILN_JIT_WORKER_PROTOCOL_H

#include "backend/backend.h"
#include "jit/worker/frame.h"
#include "source/source.h"

enum {
    KILN__WORKER_FD = 0,
    KILN__WORKER_LIMIT = 256 << 20, /* of a frame's body: a source may be large */
    KILN__WORKER_LOG_MAX = 1 << 20  /* bytes that are kept of a compiler's log */
};

typedef enum kiln__worker_type {
    KILN__WORKER_OPEN = 1,
    KILN__WORKER_IDENTIFY,
    KILN__WORKER_COMPILE,
    KILN__WORKER_TOOLCHAIN = 101,
    KILN__WORKER_FAILED,
    KILN__WORKER_BEGUN,
    KILN__WORKER_IMAGE,
    KILN__WORKER_CRASHED
} kiln__worker_type;

/* Texts end with their NUL. */
typedef enum kiln__worker_tag {
    KILN__WORKER_TAG_VERSION = 1, /* Kiln's */
    KILN__WORKER_TAG_NVRTC,       /* a path; without it NVRTC is searched for */
    KILN__WORKER_TAG_SOURCE,
    KILN__WORKER_TAG_SPEC,
    KILN__WORKER_TAG_TARGET,
    KILN__WORKER_TAG_ENTRIES, /* entry points, a newline after each */
    KILN__WORKER_TAG_STATUS,  /* a kiln_status as u32 */
    KILN__WORKER_TAG_STAGE,
    KILN__WORKER_TAG_NATIVE, /* u32 */
    KILN__WORKER_TAG_MESSAGE,
    KILN__WORKER_TAG_LOG,
    KILN__WORKER_TAG_CUBIN,
    KILN__WORKER_TAG_PTX,
    KILN__WORKER_TAG_ID, /* of the toolchain */
    KILN__WORKER_TAG_TOOLCHAIN_VERSION,
    KILN__WORKER_TAG_PATH,
    KILN__WORKER_TAG_TARGETS,  /* a blank between */
    KILN__WORKER_TAG_SIGNAL,   /* u32 */
    KILN__WORKER_TAG_IN_STACK, /* u32: 1 if it was the stack that ran out */
    KILN__WORKER_TAG_MEMORY,   /* u64: bytes of address space in use, 0 where that is not limited */
    KILN__WORKER_TAG_PLACES,   /* the lists of a source's unit, as lists are */
    KILN__WORKER_TAG_FUNCTIONS,
    KILN__WORKER_TAG_HEADERS,
    KILN__WORKER_TAG_OPTIONS,
    KILN__WORKER_TAG_PARTS,
    KILN__WORKER_TAG_NAME,
    KILN__WORKER_TAG_ASKED, /* kiln__image's functions, names and reads; texts */
    KILN__WORKER_TAG_NAMES,
    KILN__WORKER_TAG_READS,
    KILN__WORKER_TAG_UNSETTLED, /* u32 */
    KILN__WORKER_TAG_LINKER,    /* a list: see kiln__compiler_vtable */
    KILN__WORKER_TAG_CONTRACTS, /* u32: 1 if the unit does; else it is left out */
    KILN__WORKER_TAG_ARGUMENTS  /* the bytes of a template's, a blank between */
} kiln__worker_tag;

/* Writers and readers of fields. Readers trust nothing: false for anything that a sound worker or host would not have
 * sent, *out is then of no use. */

/* Whether a text may be the id of a toolchain, which goes into keys and file names; "" may. */
bool kiln__worker_is_identity(const char *text);

void kiln__worker_put_toolchain(kiln__text *frame, const kiln__toolchain *toolchain);
bool kiln__worker_get_toolchain(const kiln__frame *frame, kiln__toolchain *out);

/* A unit to compile; what is read has no geometry and points into the frame, and into *own, which the caller frees with
 * kiln__unit_fini_source, also on failure. */
void kiln__worker_put_unit(kiln__text *frame, const kiln__unit *unit);
bool kiln__worker_get_unit(const kiln__frame *frame, kiln__unit *out);

/* The field of a list; reading one that is not there gives an empty list. */
void kiln__worker_put_list(kiln__text *frame, kiln__worker_tag tag, const kiln__list *list);
bool kiln__worker_get_list(const kiln__frame *frame, kiln__worker_tag tag, kiln__list *out);

/* A failure as a report has it. Reading fills `report` (which may be NULL) and *status; its message and log are
 * clean. */
void kiln__worker_put_failure(kiln__text *frame, kiln_status status, const kiln_report *report);
bool kiln__worker_get_failure(const kiln__frame *frame, kiln_status *status, kiln_report *report);

/* An image and the version of the toolchain that made it, for people. Reading copies: the caller owns *out. With
 * false *out is empty; *no_memory tells if that was why. */
void kiln__worker_put_image(kiln__text *frame, const kiln__image *image, const kiln__toolchain *toolchain);
bool kiln__worker_get_image(const kiln__frame *frame, kiln__image *out, kiln__toolchain *toolchain, bool *no_memory);

#endif
