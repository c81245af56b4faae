/* The parts of `kiln cache` that change or move entries: trim, export, import. */
#ifndef KILN_TOOLS_CACHEWORK_H
#define KILN_TOOLS_CACHEWORK_H

#include "cli/options.h"

typedef struct cache_args {
    bool damaged;
    const char *bytes; /* as the user wrote it, or NULL */
    uint32_t files;    /* 0: not given */
    text_list words;   /* after the action: a file, then filters */
    common_args common;
} cache_args;

/* Actions, see actions.h: `args` points to cache_args. */
int cache_trim(struct session *session, const void *args);
int cache_export(struct session *session, const void *args);
int cache_import(struct session *session, const void *args);

#endif
