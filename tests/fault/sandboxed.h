/* What the program sandboxed and the suite that drives it agree on. */
#ifndef KILN_TESTS_FAULT_SANDBOXED_H
#define KILN_TESTS_FAULT_SANDBOXED_H

enum { RECORD_END = 0x1e, CANARY_FD = 9 };

#endif
