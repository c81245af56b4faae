#include "service/define.h"

#include "template/define.h"

/* The record gets the line before any request can use it, so that who replays the record knows the op in time. */
kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report)
{
    pthread_mutex_lock(&service->define_lock);
    uint32_t before = service->catalog.ops.count;
    kiln_status status = kiln__op_define(&service->catalog.ops, definition, report);
    if (status == KILN_OK && service->record != NULL && service->catalog.ops.count > before)
        kiln__record_define(service->record, "op", service->catalog.ops.ops[before]->definition);
    pthread_mutex_unlock(&service->define_lock);
    return status;
}
