/* Gets: requests that wait on their caller's thread. */
#ifndef KILN_SERVICE_GET_H
#define KILN_SERVICE_GET_H

#include "service/obtain.h"

/* KILN_EINVAL unless a complete request asks for one thing, in a way that there is. */
kiln_status kiln__request_check(const kiln_request *request, kiln_report *report);

/* The contract is kiln_get's; request and source are complete. */
kiln_status kiln__get(kiln_program **out, kiln_service *service, const kiln_request *request, kiln_report *report);

/* Gets the program of a spec, loaded. With `capture`, which points to a stream, KILN_ECAPTURE where that is captured
 * and the program is not loaded. Errors: those of kiln_get. */
kiln_status kiln__get_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, const kiln__terms *terms,
                           void *const *capture, kiln_report *report);

/* The kernel of a spec, not recorded and not listed: its last reference unloads it. A loaded listed program is given
 * as it is. */
kiln_status kiln__get_unlisted(kiln_kernel **out, kiln_service *service, kiln_device *on, const kiln__fields *spec,
                               kiln_report *report);

/* The kernel that kiln_call launches for a text that it was given before, with a new reference, or NULL. Parses
 * nothing. */
kiln_kernel *kiln__get_called(kiln_service *service, const char *text);

/* The same for any text, with a new reference: the kernel is got, and the text means it from now on. With `refuse` a
 * kernel that is not loaded is refused while the stream is captured. */
kiln_status kiln__get_text(kiln_kernel **out, kiln_service *service, const char *text, bool refuse, void *stream,
                           kiln_report *report);

#endif
