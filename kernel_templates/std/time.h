/* clock_t and clock are the compiler's own. A GPU has no calendar. */
#ifndef KILN_STD_TIME_H
#define KILN_STD_TIME_H

typedef long long time_t;

#endif
