/* Records for the suites of wisdom. */
#ifndef KILN_TESTS_SUPPORT_WISDOM_H
#define KILN_TESTS_SUPPORT_WISDOM_H

#include "wisdom/record.h"

#define H200 "NVIDIA H200"
#define H100 "NVIDIA H100 80GB HBM3"

static inline kiln__wisdom_entry kiln_test_record(const char *model, const char *op, const char *dtype, unsigned log2_n,
                                                  const char *geometry)
{
    kiln__wisdom_entry record = kiln__wisdom_record_empty;
    record.device = (kiln__wisdom_device){ model, "sm_90", 132, 60 << 20, 150000000000 };
    record.template_name = "elementwise";
    record.op_class = "1 in, 1 out, light";
    record.op = op;
    record.dtype = dtype;
    record.log2_n = log2_n;
    record.geometry = geometry;
    record.ms = 0.1204;
    record.gbps = 4456;
    record.ratio = 0.981;
    record.samples = 40;
    record.variants = 112;
    record.maker = "kiln 0.2.0";
    return record;
}

#endif
