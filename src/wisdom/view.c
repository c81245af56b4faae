#include "wisdom/view.h"

#include "base/alloc.h"

void kiln__wisdom_view_release(kiln__wisdom_view *view)
{
    if (view == NULL || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1)
        return;
    kiln__wisdom_set_fini(&view->own);
    kiln__wisdom_set_fini(&view->shared);
    kiln__free(view->items);
    kiln__free(view);
}

static void add_items(kiln__wisdom_view *view, const kiln__wisdom_set *set, kiln__wisdom_source source)
{
    for (size_t i = 0; i < set->count; i++) {
        view->items[view->count++] = (kiln__wisdom_item){ set->records[i], source };
        view->has_digests = view->has_digests || set->records[i]->digest[0] != '\0';
    }
}

kiln__wisdom_view *kiln__wisdom_view_load(kiln__wisdom_folder *own, kiln__wisdom_folder *shared,
                                          const kiln__wisdom_set *kept, int *error)
{
    kiln__wisdom_view *view = kiln__calloc(1, sizeof(*view));
    if (view == NULL)
        return NULL;
    atomic_init(&view->refs, 1);
    int own_error = kiln__wisdom_folder_load(own, &view->own);
    int shared_error = kiln__wisdom_folder_load(shared, &view->shared);
    *error = own_error != 0 ? own_error : shared_error;
    bool joined = kiln__wisdom_set_join(&view->own, kept);
    view->items = kiln__calloc(view->own.count + view->shared.count + 1, sizeof(*view->items));
    if (!joined || view->items == NULL) {
        kiln__wisdom_view_release(view);
        return NULL;
    }
    add_items(view, &view->own, KILN__WISDOM_OWN);
    add_items(view, &view->shared, KILN__WISDOM_SHARED);
    return view;
}

bool kiln__wisdom_view_equal(const kiln__wisdom_view *a, const kiln__wisdom_view *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = a->items[i].source == b->items[i].source &&
                kiln__wisdom_record_equal(a->items[i].record, b->items[i].record);
    return equal;
}
