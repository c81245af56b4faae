/* Tuning and sweeping through the public API, on the cpu: fixture and faults of the suites that do so. */
#ifndef KILN_TESTS_SUPPORT_TUNING_H
#define KILN_TESTS_SUPPORT_TUNING_H

#include "service/service.h"
#include "support/harness.h"
#include <check.h>
#include <kiln/tune.h>

static kiln_service *service;
static kiln_tuning *tuning;
static kiln_report report = KILN_INIT(kiln_report);

static inline void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static inline void forget_tuning(void)
{
    kiln_tuning_free(tuning);
    tuning = NULL;
}

static inline void close_service(void)
{
    forget_tuning();
    kiln_report_clear(&report);
    kiln_close(service);
}

static inline kiln_tuning_info info_of(void)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    ck_assert_int_eq(kiln_tuning_get_info(tuning, &info), KILN_OK);
    return info;
}

static inline kiln_variant_result result_of(uint64_t number)
{
    kiln_tuning_info info = info_of();
    ck_assert_uint_lt(number, info.result_count);
    ck_assert_uint_eq(info.results[number]->size, sizeof(kiln_variant_result));
    return *info.results[number];
}

/* kiln_sweep of texts, of which NULL is no spec. */
static inline kiln_status sweep_texts(kiln_tuning **out, const char *const *texts, size_t count,
                                      const kiln_sweep_options *options)
{
    kiln_spec *specs[16] = { NULL };
    kiln_status status = KILN_OK;
    *out = NULL;
    ck_assert_uint_le(count, 16);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        if (texts[i] != NULL)
            status = kiln_spec_parse(&specs[i], service, texts[i], &report);
    if (status == KILN_OK)
        status = kiln_sweep(out, service, (const kiln_spec *const *)specs, count, options, &report);
    for (size_t i = 0; i < count; i++)
        kiln_spec_free(specs[i]);
    return status;
}

static inline kiln_device *open_cpu(void)
{
    kiln_device *device;
    ck_assert_msg(kiln_device_open(&device, service, "cpu", &report) == KILN_OK, "%s", report.message);
    return device;
}

/* ---- The cpu with functions that are replaced */

static const kiln__backend_vtable *own; /* what it does by itself */
static kiln__backend_vtable changed;

/* The functions of the cpu, to be changed. They stay: threads of the service may still be loading when a test ends. */
static inline kiln__backend_vtable *change_cpu(void)
{
    kiln_device *device = open_cpu();
    own = device->backend->vtable;
    changed = *own;
    device->backend->vtable = &changed;
    return &changed;
}

static int copies_left;

static inline kiln_status copy_or_fail(kiln_device *device, void *to, const void *from, size_t bytes,
                                       kiln__copy_kind kind, void *stream, kiln_report *why)
{
    if (--copies_left < 0)
        return kiln__fail(why, KILN_EDEVICE, KILN__STAGE_DEVICE, 0, "the device is gone");
    return own->copy(device, to, from, bytes, kind, stream, why);
}

/* From now on the cpu fails after so many copies. */
static inline void fail_after(int copies)
{
    copies_left = copies;
    change_cpu()->copy = copy_or_fail;
}

#endif
