#include "service/site.h"

#include "base/alloc.h"
#include "base/digest.h"

/* Numbers services for as long as the process lives: 48 bits of it go into tickets, enough for a service each
 * microsecond for years. */
static atomic_uint_least64_t services;

void kiln__sites_init(kiln__sites *sites)
{
    memset(sites, 0, offsetof(kiln__sites, pages));
    sites->service = 1 + atomic_fetch_add(&services, 1);
    pthread_mutex_init(&sites->lock, NULL);
}

void kiln__sites_fini(kiln__sites *sites)
{
    for (int i = 0; sites->buckets != NULL && i < KILN__SITE_BUCKETS; i++)
        for (kiln__binding *binding = sites->buckets[i], *next; binding != NULL; binding = next) {
            next = binding->next;
            kiln__kernel_release(binding->kernel);
            kiln__free(binding);
        }
    for (uint32_t i = 0; i < sites->count; i += KILN__SITE_PAGE)
        kiln__free(sites->pages[i / KILN__SITE_PAGE]);
    kiln__free(sites->buckets);
    pthread_mutex_destroy(&sites->lock);
}

static uint64_t hash_of(const char *text)
{
    uint8_t sum[KILN__CHECKSUM_SIZE];
    uint64_t hash;
    kiln__checksum(sum, text, strlen(text));
    memcpy(&hash, sum, sizeof(hash));
    return hash;
}

static kiln__binding *find_locked(const kiln__sites *sites, uint64_t hash, const char *text)
{
    if (sites->buckets == NULL)
        return NULL;
    for (kiln__binding *at = sites->buckets[hash % KILN__SITE_BUCKETS]; at != NULL; at = at->next)
        if (at->hash == hash && strcmp(at->text, text) == 0)
            return at;
    return NULL;
}

/* Into a free place, else over what is at a place that depends on the service too, so that the first texts of two
 * services do not drive each other out. */
static void tell(kiln_site *site, uint64_t ticket)
{
    int way = 0;
    if (ticket == 0)
        return;
    while (way < KILN__SITE_WAYS && __atomic_load_n(&site->opaque[way], __ATOMIC_RELAXED) != 0)
        way++;
    if (way == KILN__SITE_WAYS)
        way = (int)(((ticket >> KILN__SITE_NUMBER_BITS) + ticket) % KILN__SITE_WAYS);
    __atomic_store_n(&site->opaque[way], ticket, __ATOMIC_RELEASE);
}

const kiln_kernel *kiln__sites_look_up(kiln__sites *sites, kiln_site *site, const char *text)
{
    uint64_t hash = hash_of(text);
    pthread_mutex_lock(&sites->lock);
    const kiln__binding *found = find_locked(sites, hash, text);
    pthread_mutex_unlock(&sites->lock);
    if (found == NULL)
        return NULL;
    tell(site, found->ticket);
    return found->kernel;
}

/* Gives the binding a number that tickets can carry, if there is one left and memory for it. */
static void number_locked(kiln__sites *sites, kiln__binding *binding)
{
    uint32_t page = sites->count / KILN__SITE_PAGE;
    if (page == KILN__SITE_PAGES || sites->service >> (64 - KILN__SITE_NUMBER_BITS) != 0)
        return;
    if (sites->count % KILN__SITE_PAGE == 0 &&
        (sites->pages[page] = kiln__calloc(KILN__SITE_PAGE, sizeof(binding))) == NULL)
        return;
    sites->pages[page][sites->count % KILN__SITE_PAGE] = binding;
    binding->ticket = sites->service << KILN__SITE_NUMBER_BITS | sites->count++;
}

const kiln_kernel *kiln__sites_bind(kiln__sites *sites, kiln_site *site, const char *text, kiln_kernel *kernel)
{
    size_t size = strlen(text) + 1;
    uint64_t hash = hash_of(text);
    kiln__binding *fresh = kiln__alloc(sizeof(*fresh) + size);
    if (fresh == NULL)
        return NULL;
    pthread_mutex_lock(&sites->lock);
    if (sites->buckets == NULL)
        sites->buckets = kiln__calloc(KILN__SITE_BUCKETS, sizeof(fresh));
    kiln__binding *found = find_locked(sites, hash, text);
    if (found == NULL && sites->buckets != NULL) {
        kiln__binding **bucket = &sites->buckets[hash % KILN__SITE_BUCKETS];
        *fresh = (kiln__binding){ *bucket, hash, 0, kiln__kernel_retain(kernel) };
        memcpy(fresh->text, text, size);
        number_locked(sites, fresh);
        found = *bucket = fresh;
        fresh = NULL;
    }
    pthread_mutex_unlock(&sites->lock);
    kiln__free(fresh);
    if (found == NULL)
        return NULL;
    tell(site, found->ticket);
    return found->kernel;
}

void kiln__sites_before_fork(kiln__sites *sites)
{
    pthread_mutex_lock(&sites->lock);
}

void kiln__sites_after_fork(kiln__sites *sites)
{
    pthread_mutex_unlock(&sites->lock);
}
