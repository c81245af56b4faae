/* Wisdom that machines share through the remote: one value with the best of all their records. */
#ifndef KILN_SERVICE_SHARE_H
#define KILN_SERVICE_SHARE_H

#include "service/service.h"

/* Adds the remote's records to the user's, where they are better. Errors: KILN_ENOENT (no remote, no store on disk),
 * KILN_EIO (the server does not answer; it has a value that is not signed or is damaged; records cannot be stored),
 * KILN_ENOMEM. */
kiln_status kiln__share_pull(kiln_service *service, kiln__wisdom_counts *out, kiln_report *report);

/* Adds the user's records to the remote's, where they are better. Waits for other machines that do. The same errors;
 * KILN_ENOENT also where there is no secret to sign them. */
kiln_status kiln__share_push(kiln_service *service, kiln__wisdom_counts *out, kiln_report *report);

#endif
