#include "spec/reference.h"

#include "base/fpenv.h"
#include "lang/real.h"
#include <math.h>
#include <string.h>

/* Binary formats: bits of the fraction and the least exponent of a number that is not subnormal. */
static const struct {
    int fraction, least, most;
} formats[KILN__DTYPE_END] = { [KILN__DTYPE_F32] = { 23, -126, 127 },
                               [KILN__DTYPE_F64] = { 52, -1022, 1023 },
                               [KILN__DTYPE_F16] = { 10, -14, 15 },
                               [KILN__DTYPE_BF16] = { 7, -126, 127 } };

const kiln__op *kiln__reference_op(const kiln__fields *spec)
{
    if (!spec->op_set || spec->op->count == 0)
        return NULL;
    const kiln__expr_node *root = &spec->op->nodes[spec->op->count - 1];
    const kiln__op *op = root->op >= 0 ? kiln__op_at(&spec->catalog->ops, root->op) : NULL;
    for (uint32_t i = 0; op != NULL && i < op->inputs; i++)
        if (spec->op->nodes[root->args[i]].op >= 0 || spec->op->nodes[root->args[i]].input != (int)i)
            op = NULL;
    return op != NULL && op->bounded ? op : NULL;
}

static double small_value(uint16_t bits, kiln__dtype dtype)
{
    int fraction = formats[dtype].fraction, exponent = bits >> fraction & (dtype == KILN__DTYPE_F16 ? 31 : 255);
    double digits = bits & ((1 << fraction) - 1), magnitude;
    if (exponent > formats[dtype].most - formats[dtype].least + 1)
        magnitude = digits != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(digits, formats[dtype].least - fraction);
    else
        magnitude = ldexp(digits + (1 << fraction), exponent - 1 + formats[dtype].least - fraction);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double kiln__reference_value(const void *array, uint64_t i, kiln__dtype dtype)
{
    float single;
    double value;
    uint16_t bits;
    switch (dtype) {
    case KILN__DTYPE_F64:
        memcpy(&value, (const char *)array + i * sizeof(value), sizeof(value));
        return value;
    case KILN__DTYPE_F32:
        memcpy(&single, (const char *)array + i * sizeof(single), sizeof(single));
        return (double)single;
    default:
        memcpy(&bits, (const char *)array + i * sizeof(bits), sizeof(bits));
        return small_value(bits, dtype);
    }
}

double kiln__reference_distance(double got, double want, kiln__dtype dtype)
{
    int exponent = formats[dtype].least;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    if (want != 0 && isfinite(want) && ilogb(want) > exponent)
        exponent = ilogb(want) < formats[dtype].most ? ilogb(want) : formats[dtype].most;
    double unit = ldexp(1, exponent - formats[dtype].fraction);
    double most = ldexp(2 - ldexp(1, -formats[dtype].fraction), formats[dtype].most);
    if (isinf(got) && fabs(want) > most && (got > 0) == (want > 0))
        return fabs(want) >= most + unit / 2 ? 0 : (most + unit / 2 - fabs(want)) / unit;
    return fabs(got - want) / unit;
}

void kiln__reference_compare(const kiln__fields *spec, uint64_t n, const void *results, const void *const *in,
                             kiln__worst_error *out)
{
    const kiln__op *op = kiln__reference_op(spec);
    const kiln__real *reference = op->reference != NULL ? op->reference : op->real;
    const double *params = spec->op->nodes[spec->op->count - 1].params;
    kiln__fpenv host;
    memset(out, 0, sizeof(*out));
    kiln__fpenv_enter(&host);
    for (uint64_t i = 0; i < n; i++) {
        double inputs[KILN__INPUTS_MAX];
        for (uint32_t j = 0; j < op->inputs; j++)
            inputs[j] = kiln__reference_value(in[j], i, spec->dtype);
        double want = kiln__real_value(reference, &spec->catalog->ops, inputs, params);
        double got = kiln__reference_value(results, i, spec->dtype);
        double far = kiln__reference_distance(got, want, spec->dtype);
        if (far > out->worst)
            *out = (kiln__worst_error){ far, got, want, i };
    }
    kiln__fpenv_leave(&host);
}
