/* Work on the stores as such: what their entries are, trimming, packs. */
#ifndef KILN_SERVICE_CACHE_H
#define KILN_SERVICE_CACHE_H

#include "service/service.h"

enum { KILN__CACHE_TARGET_SIZE = 32 };

/* An entry as the host is told of it. */
typedef struct kiln__cache_entry {
    kiln_entry_info info; /* borrows `target` and the item */
    char target[KILN__CACHE_TARGET_SIZE];
} kiln__cache_entry;

void kiln__cache_describe(kiln__cache_entry *out, const kiln__store_item *item);

/* KILN_ENOENT with the reason if the service has no directory store. */
kiln_status kiln__cache_need_disk(const kiln_service *service, kiln_report *report);

/* The contracts of these are those of the public functions of the same name; *out is full and never NULL. */
kiln_status kiln__cache_info(kiln_service *service, kiln_cache_info *out, kiln_report *report);
kiln_status kiln__cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out,
                             kiln_report *report);
kiln_status kiln__cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                               kiln_transfer *out, kiln_report *report);
kiln_status kiln__cache_import(kiln_service *service, const char *path, kiln_transfer *out, kiln_report *report);

#endif
