/* Declarations that templates of the tests have in common. */
#ifndef KILN_TEST_DECLARED_H
#define KILN_TEST_DECLARED_H

/* Arrays of n elements and their count, of an elementwise template that has a tile: with an op, and without one. */
#define DECLARED_OP                      \
    "//! size n\n"                       \
    "//! arg out out dtype[n] inplace\n" \
    "//! arg x... in dtype[n]\n"         \
    "//! arg n uint64 = n\n"             \
    "//! grid (n + tile - 1) / tile\n"
#define DECLARED_X                       \
    "//! size n\n"                       \
    "//! arg out out dtype[n] inplace\n" \
    "//! arg x in dtype[n]\n"            \
    "//! arg n uint64 = n\n"             \
    "//! grid (n + tile - 1) / tile\n"

#endif
