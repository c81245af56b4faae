/* Tunings on one device take turns: side by side they would falsify each other's times. */
#ifndef KILN_TUNE_TURN_H
#define KILN_TUNE_TURN_H

#include "backend/backend.h"

/* Waits until no other thread of this process has the device's turn, and takes it. `give_up`, which may be NULL, is
 * asked every few milliseconds. Who has the turn ends it. KILN_ECANCELED: it was given up. */
kiln_status kiln__turn_take(kiln_device *device, bool (*give_up)(void *data), void *data, kiln_report *report);
void kiln__turn_end(kiln_device *device);

#endif
