/* The specs that `kiln warm` is to compile: words and manifests, expanded, each once. */
#ifndef KILN_TOOLS_WORKLIST_H
#define KILN_TOOLS_WORKLIST_H

#include "common.h"

typedef struct work_item {
    char *spec; /* canonical text */
    bool done;
    kiln_status status;
    char *problem; /* why it failed, or NULL */
    char *log;     /* the compiler's log of a failure, or NULL */
    char *built;   /* canonical text with every field set, or NULL */
    kiln_source source;
    double compile_ms;
    uint64_t bytes; /* of the cubin or object */
} work_item;

struct worklist {
    work_item *items;
    size_t count, room;
    size_t skipped;          /* lines of recorded files that no spec could be made of */
    const char *target;      /* what --target says, or NULL */
    const char *chosen;      /* for lines that name none when --target is not given; found when first needed */
    const char *device_name; /* what --device says, or NULL */
};

/* Adds the specs that one line stands for. `where` names the line in messages, or is NULL. Returns STATUS_DONE or the
 * exit status after a message. */
int worklist_add(struct worklist *list, struct session *session, const char *line, const char *where);

/* Adds the lines of a file, "-" for stdin; '#' begins a comment. In a file that begins as KILN_RECORD's do, a line that
 * is no spec, or none for the targets wanted, is skipped with a message. Returns as worklist_add does. */
int worklist_add_file(struct worklist *list, struct session *session, const char *path);

/* Drops items whose text occurred before. */
void worklist_unique(struct worklist *list);
void worklist_free(struct worklist *list);

#endif
