#include "service/standin.h"

#include "service/obtain.h"
#include <string.h>

/* The texts of kernels that will do begin and end like that of what is wanted; the geometry stands between. */
typedef struct search {
    const kiln__want *want;
    kiln__text head, tail;
    kiln_program *nearest;
    uint64_t distance;
} search;

static bool fits(const search *self, const kiln_program *program)
{
    size_t length = strlen(program->spec);
    return program->plan != NULL && program->device == self->want->device &&
           length >= self->head.length + self->tail.length &&
           memcmp(program->spec, self->head.data, self->head.length) == 0 &&
           memcmp(program->spec + length - self->tail.length, self->tail.data, self->tail.length) == 0;
}

/* By ratio, so that 64 is nearer to 128 than to 256. */
static uint64_t distance_of(const kiln__fields *a, const kiln__fields *b)
{
    enum { SCALE = 1024 };
    uint64_t sum = 0;
    for (uint32_t i = 0; i < a->template->param_count; i++) {
        uint64_t x = (uint64_t)a->params[i], y = (uint64_t)b->params[i];
        if (x != y)
            sum += x > y ? SCALE * (x - y) / x : SCALE * (y - x) / y;
    }
    return sum;
}

static void consider(void *data, kiln_program *program)
{
    search *self = data;
    kiln__fields fields;
    kiln__expr room;
    const kiln__fields *wanted = &self->want->spec;
    if (!fits(self, program) || kiln__fields_parse(&fields, &room, wanted->catalog, program->spec, NULL) != KILN_OK)
        return;
    uint64_t distance = distance_of(&fields, wanted);
    if (self->nearest != NULL && distance >= self->distance)
        return;
    kiln__program_release(self->nearest); /* never the last one: the table has its own */
    self->nearest = kiln__program_retain(program);
    self->distance = distance;
}

kiln_program *kiln__stand_in_loaded(kiln_service *service, const kiln__want *want)
{
    search self = { .want = want };
    kiln__fields open = want->spec;
    memset(open.param_set, 0, sizeof(open.param_set));
    open.target_set = false;
    kiln__spec_format(&open, false, &self.head);
    kiln__text_append(&self.head, " ");
    kiln__text_printf(&self.tail, " target=%s", want->spec.target.name);
    if (!self.head.failed && !self.tail.failed)
        kiln__program_table_visit(&service->programs, consider, &self);
    kiln__text_fini(&self.head);
    kiln__text_fini(&self.tail);
    return self.nearest;
}

kiln_program *kiln__stand_in_stored(kiln_service *service, const kiln__want *want)
{
    kiln__outcome outcome;
    kiln_program *program = NULL;
    kiln__want *other = kiln__want_open_geometry(service, want);
    if (other != NULL && kiln__obtain_now(service, other, &outcome)) {
        program = kiln__program_retain(outcome.program);
        kiln__outcome_fini(&outcome);
    }
    kiln__want_release(other);
    return program;
}
