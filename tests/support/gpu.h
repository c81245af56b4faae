/* The cuda backend on the stand-in driver: fixture, samples and checks for the suites that test it from inside. */
#ifndef KILN_TESTS_SUPPORT_GPU_H
#define KILN_TESTS_SUPPORT_GPU_H

#include "gpu/cuda.h"
#include "support/fake_cuda.h"
#include "support/flat.h"
#include <check.h>
#include <stdatomic.h>
#include <string.h>

enum { TILE = 512, BLOCK = 128, ELEMENT = 4, CUBIN_MAX = 8192 };

static const char *const entry_names[] = { "kiln_vector", "kiln_scalar" };
static const char ptx_90[] = "//\n.version 8.0\n.target sm_80\n.address_size 64\n"
                             ".visible .entry kiln_vector(\n.param .u64 a,\n.param .u64 b,\n.param .u64 n\n)\n{ret;}\n"
                             ".visible .entry kiln_scalar(\n.param .u64 a,\n.param .u64 b,\n.param .u64 n\n)\n{ret;}\n";

static const kiln_fake *fake;
static kiln__backend *backend;
static const kiln__backend_vtable *vtable;
static kiln_report report = KILN_INIT(kiln_report);

static inline void set_up(void)
{
    fake = kiln_fake_open();
    backend = kiln__cuda_open(kiln_fake_path(), NULL);
    ck_assert_ptr_nonnull(backend);
    vtable = backend->vtable;
}

static inline void check_nothing_left(const char *when)
{
    kiln_fake_live live;
    fake->counts(&live);
    const size_t memory = live.allocations + live.pools + live.bytes;
    ck_assert_msg(
        live.contexts + live.streams + live.events + live.libraries + live.graphs + memory == 0,
        "%s: left %zu contexts, %zu streams, %zu events, %zu libraries, %zu allocations, %zu pools, %zu graphs", when,
        live.contexts, live.streams, live.events, live.libraries, live.allocations, live.pools, live.graphs);
    ck_assert_uint_eq(fake->context_depth(), 0);
}

static inline void tear_down(void)
{
    vtable->close(backend);
    kiln_report_clear(&report);
    check_nothing_left("at the end of the test");
}

static inline void check_report(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_int_eq(report.status, expected);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static inline void check_ok(kiln_status status)
{
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
}

static inline kiln_device *open_device(void)
{
    kiln_device *device;
    check_ok(vtable->device_open(backend, 0, &device, &report));
    return device;
}

static inline kiln__rule sample_rule(void)
{
    kiln__rule rule = { .block = { BLOCK, 1, 1 }, .tile = TILE, .entry_count = 2 };
    strcpy(rule.entries[0].name, entry_names[0]);
    strcpy(rule.entries[1].name, entry_names[1]);
    rule.entries[0].align = 16;
    rule.entries[1].align = ELEMENT;
    return rule;
}

/* An entry with a cubin for `sm` (0: none) and with PTX (NULL: none). The cubin's bytes are in a static buffer. */
static inline kiln__entry sample_entry(int sm, const char *ptx)
{
    static char cubin[CUBIN_MAX];
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    if (sm != 0) {
        size_t length = fake->cubin(cubin, sizeof(cubin), sm, entry_names, 2, 1);
        ck_assert_uint_le(length, sizeof(cubin));
        ck_assert(kiln__entry_add(&entry, "cubin", cubin, length));
    }
    if (ptx != NULL)
        ck_assert(kiln__entry_add(&entry, "ptx", ptx, strlen(ptx)));
    return entry;
}

static inline kiln__module *load(kiln_device *device)
{
    kiln__rule rule = sample_rule();
    kiln__entry entry = sample_entry(90, NULL);
    kiln__module *module;
    bool used_ptx = true;
    check_ok(vtable->load(device, &entry, &rule, &module, &used_ptx, &report));
    ck_assert(!used_ptx);
    return module;
}

/* Launches the sample's kernels, which take out, one input and n. */
static inline kiln_status launch_n(kiln__module *module, uint32_t entry, uint64_t n, void *out, const void *const *in,
                                   void *stream, kiln_report *why)
{
    return kiln_test_launch_flat(vtable, module, entry, TILE, n, out, in, 1, stream, why);
}

/* An allocation hook: fails the allocation number `fail_at`, none if that is 0. */
static atomic_int allocations, fail_at;

static inline int count_allocation(void)
{
    return ++allocations == fail_at;
}

#endif
