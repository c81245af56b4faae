/* Values in a device's memory, for measuring and checking kernels. */
#ifndef KILN_TUNE_FILL_H
#define KILN_TUNE_FILL_H

#include "backend/backend.h"

/* Random values repeat after so many elements, a prime number: no geometry has a tile that divides it, so an element
 * that was taken from the wrong place is not equal by chance. */
enum { KILN__FILL_PERIOD = 1048573, KILN__FILL_POISON = 0xa5 };

/* Fills n elements: random signs, magnitudes from 1/64 to 8, on both sides of every threshold of the ops, the same
 * on every machine for an equal seed. Returns when done. KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report);

/* Fills n whole numbers of `size` bytes: random ones from 0 to below - 1, at most 127 for those of one byte. As
 * above. */
kiln_status kiln__fill_whole(kiln_device *device, void *to, uint32_t size, uint64_t n, uint64_t below, uint64_t seed,
                             kiln_report *report);

/* Repeats the first `have` bytes of what lies elsewhere on the device until `bytes` are filled. Only queued, in the
 * default stream: the caller waits for the device. KILN_EDEVICE. */
kiln_status kiln__fill_repeat(kiln_device *device, void *to, const void *from, uint64_t have, uint64_t bytes,
                              kiln_report *report);

/* Fills with one byte, such as 0xa5, which no kernel writes by chance. Returns when done. KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__fill_bytes(kiln_device *device, void *to, unsigned char byte, uint64_t bytes, kiln_report *report);

#endif
