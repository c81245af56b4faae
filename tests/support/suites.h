/* The test suites. tests/CMakeLists.txt reads these lists: a suite X(room, name) is in <room>/check_<name>.c, and is
 * the test <room>_<name>. */
#ifndef KILN_TESTS_SUPPORT_SUITES_H
#define KILN_TESTS_SUPPORT_SUITES_H

#include <check.h>

/* Internal functions, without a service. */
#define KILN_UNIT_SUITES(X) \
    X(base, text)           \
    X(base, number)         \
    X(base, digest)         \
    X(base, table)          \
    X(base, elf)            \
    X(base, log)            \
    X(os, file)             \
    X(os, trust)            \
    X(os, process)          \
    X(os, child)            \
    X(os, lock)             \
    X(lang, derive)         \
    X(lang, formula)        \
    X(lang, op)             \
    X(lang, define)         \
    X(lang, expr)           \
    X(lang, typing)         \
    X(spec, template)       \
    X(spec, catalog)        \
    X(spec, spec)           \
    X(spec, frozen)         \
    X(spec, expand)         \
    X(spec, unit)           \
    X(spec, bound)          \
    X(spec, loop)           \
    X(spec, rows)           \
    X(source, reads)        \
    X(source, kernels)      \
    X(store, entry)         \
    X(store, memory)        \
    X(store, disk)          \
    X(store, disk_faults)   \
    X(store, tiers)         \
    X(store, shared)        \
    X(store, evict)         \
    X(store, pack)          \
    X(store, remote)        \
    X(wisdom, json)         \
    X(wisdom, match)        \
    X(wisdom, wisdom)       \
    X(backend, image)       \
    X(cpu, pool)            \
    X(jit, frame)           \
    X(jit, key)             \
    X(tune, space)          \
    X(tune, search)

/* Through the public API, over the stand-in driver or on the cpu. */
#define KILN_SERVICE_SUITES(X)   \
    X(spec, templates)           \
    X(source, source)            \
    X(source, headers)           \
    X(source, programs)          \
    X(store, packs)              \
    X(gpu, cuda)                 \
    X(gpu, launch)               \
    X(gpu, shared_memory)        \
    X(gpu, nvrtc)                \
    X(gpu, tapes)                \
    X(cpu, cc)                   \
    X(cpu, cpu)                  \
    X(cpu, fpenv)                \
    X(jit, toolchains)           \
    X(jit, workers)              \
    X(jit, worker_faults)        \
    X(jit, balance)              \
    X(jit, isolate)              \
    X(jit, linking)              \
    X(jit, source_lists)         \
    X(service, service)          \
    X(service, misses)           \
    X(service, request)          \
    X(service, program)          \
    X(service, pipeline)         \
    X(service, source_async)     \
    X(service, faults)           \
    X(service, forks)            \
    X(service, cancellation)     \
    X(service, stack)            \
    X(service, record)           \
    X(service, geometry)         \
    X(service, flight)           \
    X(service, async)            \
    X(service, devices)          \
    X(service, call)             \
    X(service, apply)            \
    X(service, outputs)          \
    X(service, reduce)           \
    X(service, parts)            \
    X(service, phases)           \
    X(service, events)           \
    X(service, kept)             \
    X(service, defined)          \
    X(service, manifest)         \
    X(service, headers)          \
    X(tune, measure)             \
    X(tune, proof)               \
    X(tune, contest)             \
    X(tune, tuner)               \
    X(tune, sweep)               \
    X(tune, tuner_devices)       \
    X(tune, live)                \
    X(tune, arguments)           \
    X(tune, verify)              \
    X(api, api)                  \
    X(kernel_templates, compare) \
    X(kernel_templates, ops)     \
    X(kernel_templates, rowsum)  \
    X(kernel_templates, strided) \
    X(kernel_templates, types)

/* Faults made on demand. */
#define KILN_FAULT_SUITES(X) \
    X(fault, corruption)     \
    X(fault, kills)          \
    X(fault, io)             \
    X(fault, memory)         \
    X(fault, sources)        \
    X(fault, planted)        \
    X(fault, sandbox)        \
    X(fault, calls)          \
    X(fault, hostile)        \
    X(fault, wisdom)

#define KILN_SUITE_PROTOTYPE(room, name) Suite *kiln_test_##room##_##name##_suite(void);
KILN_UNIT_SUITES(KILN_SUITE_PROTOTYPE)
KILN_SERVICE_SUITES(KILN_SUITE_PROTOTYPE)
KILN_FAULT_SUITES(KILN_SUITE_PROTOTYPE)
#undef KILN_SUITE_PROTOTYPE

#endif
