#ifndef PROJECT_MATH_H
#define PROJECT_MATH_H
#include "limits.h"
#include_next <math.h>

static inline float project_angle(float x, float y)
{
    return fabsf(x) + fabsf(y) > 0 ? atan2f(y, x) : 0.0f;
}

#endif
