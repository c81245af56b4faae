/* The test suites. tests/CMakeLists.txt reads these lists: a suite X(name) is in check_<name>.c of its directory. */
#ifndef KILN_TESTS_SUPPORT_SUITES_H
#define KILN_TESTS_SUPPORT_SUITES_H

#include <check.h>

#define KILN_UNIT_SUITES(X) \
    X(text)                 \
    X(number)               \
    X(digest)               \
    X(table)                \
    X(elf)                  \
    X(log)                  \
    X(file)                 \
    X(trust)                \
    X(process)              \
    X(child)                \
    X(lock)                 \
    X(frame)                \
    X(formula)              \
    X(manifest)             \
    X(op)                   \
    X(define)               \
    X(own)                  \
    X(expr)                 \
    X(spec)                 \
    X(frozen)               \
    X(expand)               \
    X(unit)                 \
    X(entry)                \
    X(memory)               \
    X(disk)                 \
    X(disk_faults)          \
    X(tiers)                \
    X(shared)               \
    X(evict)                \
    X(pack)                 \
    X(key)                  \
    X(reads)                \
    X(kernels)              \
    X(image)                \
    X(pool)                 \
    X(wisdom_json)          \
    X(wisdom_match)         \
    X(wisdom)               \
    X(space)                \
    X(search)

#define KILN_SERVICE_SUITES(X) \
    X(service)                 \
    X(packs)                   \
    X(misses)                  \
    X(request)                 \
    X(toolchains)              \
    X(cuda)                    \
    X(launch)                  \
    X(shared_memory)           \
    X(nvrtc)                   \
    X(workers)                 \
    X(worker_faults)           \
    X(crowd)                   \
    X(isolate)                 \
    X(source)                  \
    X(headers)                 \
    X(program)                 \
    X(source_lists)            \
    X(pipeline)                \
    X(source_async)            \
    X(programs)                \
    X(faults)                  \
    X(cc)                      \
    X(cpu)                     \
    X(fpenv)                   \
    X(measure)                 \
    X(tapes)                   \
    X(count)                   \
    X(rowsum)                  \
    X(proof)                   \
    X(contest)                 \
    X(tuner)                   \
    X(sweep)                   \
    X(tuner_devices)           \
    X(live)                    \
    X(forks)                   \
    X(cancellation)            \
    X(stack)                   \
    X(record)                  \
    X(geometry)                \
    X(flight)                  \
    X(async)                   \
    X(devices)                 \
    X(call)                    \
    X(kept)                    \
    X(defined)                 \
    X(templates)               \
    X(arguments)               \
    X(verify)                  \
    X(api)

#define KILN_FAULT_SUITES(X) \
    X(corruption)            \
    X(kills)                 \
    X(io)                    \
    X(memory)                \
    X(sources)               \
    X(planted)               \
    X(sandbox)               \
    X(calls)                 \
    X(hostile)               \
    X(wisdom)

#define KILN_SUITE_PROTOTYPE(name) Suite *kiln_test_##name##_suite(void);
KILN_UNIT_SUITES(KILN_SUITE_PROTOTYPE)
KILN_SERVICE_SUITES(KILN_SUITE_PROTOTYPE)
KILN_FAULT_SUITES(KILN_SUITE_PROTOTYPE)
#undef KILN_SUITE_PROTOTYPE

#endif
