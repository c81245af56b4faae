/* Call sites: which kernel a text means at a place of the host's program, without parsing it again.
 *
 * A site is the host's memory, outlives services and may meet several. So it holds no pointers but tickets: the number of
 * a service, which no other service of the process ever has, and the number of a binding in that service. A ticket of
 * another service is passed over unread, however long that one is closed. */
#ifndef KILN_SERVICE_SITE_H
#define KILN_SERVICE_SITE_H

#include "service/kernel.h"
#include <string.h>

enum {
    KILN__SITE_WAYS = sizeof(((kiln_site *)0)->opaque) / sizeof(uint64_t),
    KILN__SITE_NUMBER_BITS = 16, /* of a ticket, for the binding; the rest is the service's */
    KILN__SITE_PAGE = 1024,
    KILN__SITE_PAGES = (1 << KILN__SITE_NUMBER_BITS) / KILN__SITE_PAGE,
    KILN__SITE_BUCKETS = 256
};

/* A text and its kernel. Constant, and there until the service closes. */
typedef struct kiln__binding {
    struct kiln__binding *next;
    uint64_t hash, ticket; /* ticket 0: there were too many, and it cannot be kept at a site */
    kiln_kernel *kernel;
    char text[];
} kiln__binding;

/* Embedded in the service. Any thread after init. */
typedef struct kiln__sites {
    uint64_t service; /* its number, from 1 */
    pthread_mutex_t lock;
    uint32_t count; /* of the bindings with a ticket */
    /* Large, and most processes call nothing by its text: made with the first binding, and pages only as far as there are
     * tickets. */
    kiln__binding **buckets;
    kiln__binding **pages[KILN__SITE_PAGES];
} kiln__sites;

void kiln__sites_init(kiln__sites *sites);
void kiln__sites_fini(kiln__sites *sites);

/* The kernel that the text means at this site, or NULL if the site does not know. No reference; valid until the service
 * closes. Takes no lock. What a ticket leads to was written before the ticket was, and never changes. The bytes of the
 * text are compared, not its address: hosts build texts in buffers. */
static inline const kiln_kernel *kiln__sites_find(const kiln__sites *sites, const kiln_site *site, const char *text)
{
    for (int way = 0; way < KILN__SITE_WAYS; way++) {
        uint64_t ticket = __atomic_load_n(&site->opaque[way], __ATOMIC_ACQUIRE);
        if (ticket >> KILN__SITE_NUMBER_BITS != sites->service)
            continue;
        uint32_t number = ticket & ((1u << KILN__SITE_NUMBER_BITS) - 1);
        const kiln__binding *binding = sites->pages[number / KILN__SITE_PAGE][number % KILN__SITE_PAGE];
        if (strcmp(binding->text, text) == 0)
            return binding->kernel;
    }
    return NULL;
}

/* The same from all texts of the service; the site knows it from now on. */
const kiln_kernel *kiln__sites_look_up(kiln__sites *sites, kiln_site *site, const char *text);

/* Binds a text to a kernel, which is retained, unless another thread was faster; the site knows it from now on. Returns the
 * kernel of the binding as kiln__sites_find does; NULL: out of memory. */
const kiln_kernel *kiln__sites_bind(kiln__sites *sites, kiln_site *site, const char *text, kiln_kernel *kernel);

/* Around a fork, in parent and child. */
void kiln__sites_before_fork(kiln__sites *sites);
void kiln__sites_after_fork(kiln__sites *sites);

#endif
