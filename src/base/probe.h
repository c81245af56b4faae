/* Probes for tracers such as bpftrace, perf and SystemTap (USDT), of the provider "kiln"; docs/embedding.md lists them.
 * A probe is one nop until a tracer sets a breakpoint there. A build without sys/sdt.h has none, and evaluates no
 * argument. */
#ifndef KILN_BASE_PROBE_H
#define KILN_BASE_PROBE_H

#if __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
/* clang finds the macros of sys/sdt.h pedantically wrong where they are used. */
#define KILN__PROBE(name, ...)                                                          \
    do {                                                                                \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wpedantic\"") \
            STAP_PROBEV(kiln, name, __VA_ARGS__);                                       \
        _Pragma("GCC diagnostic pop")                                                   \
    } while (0)
#else
#define KILN__PROBE(name, ...) ((void)0)
#endif

#endif
