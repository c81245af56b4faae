/* The specs that `kiln warm` compiles: words and manifests, expanded, each once. */
#ifndef KILN_TOOLS_WORKLIST_H
#define KILN_TOOLS_WORKLIST_H

#include "cli/common.h"

typedef struct work_item {
    char *spec;  /* canonical text, every field set */
    char *asked; /* as the line had it, for one target */
    bool done;
    bool kept; /* in the cache at the end of the run */
    kiln_status status;
    char *problem; /* why it failed, or NULL */
    char *log;     /* the compiler's log of a failure, or NULL */
    kiln_origin origin;
    const char *origin_name; /* in words */
    double compile_ms;
    size_t bytes; /* of the cubin or object */
} work_item;

struct worklist {
    work_item *items;
    size_t count, room;
    text_list definitions;   /* the lines that define what specs name, each once, in order */
    size_t skipped;          /* lines of recorded files that no spec could be made of, or not for every target */
    text_list targets;       /* that the compiler builds, and those that it was asked about */
    bool asked;              /* targets are known */
    bool unasked;            /* there is no compiler to ask, or it must not be asked */
    const char *target;      /* for lines that name none: the value of --target, or NULL */
    const char *chosen;      /* the field for them when --target is not given; found when first needed */
    const char *device_name; /* the value of --device, or NULL */
};

/* Adds a definition that has been made, as a line of a manifest, unless it is there. */
void worklist_define(struct worklist *list, const char *definition);

/* Adds the specs that one line of the command line stands for, with every field set. Faults that can be known before a
 * compile are found here, a target that the compiler does not build among them. Returns STATUS_DONE or the exit status
 * after a message. */
int worklist_add(struct worklist *list, struct session *session, const char *line);

/* Makes the definitions and adds the specs of a manifest, "-" for stdin. A line of a record that is no spec, or none
 * for the targets wanted, is skipped with a message. Returns as worklist_add does. */
int worklist_add_file(struct worklist *list, struct session *session, const char *path);

/* Drops items that stand for the same kernel as an earlier one. */
void worklist_unique(struct worklist *list);

#endif
