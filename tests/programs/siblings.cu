#include <limits.h>
#include "beside/math.h"

// Angles of a polygon's corners, saturated: by a math.h of the project's that wraps the standard one, and constants of
// a header named as a standard one.
extern "C" __global__ void corners(const float2 *points, int *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float2 before = points[(i + n - 1) % n], here = points[i], after = points[(i + 1) % n];
    const float angle = project_angle(after.x - here.x, after.y - here.y) - project_angle(before.x - here.x, before.y - here.y);
    const float milli = angle * (float)(180 / M_PI) * 1000;
    out[i] = milli > SATURATED_MOST ? SATURATED_MOST : milli < -SATURATED_MOST ? -SATURATED_MOST : (int)milli;
    if (INT_MAX - out[i] < 0)
        out[i] = 0;
}
