#pragma once
#include "wild/vec_impl.h"

namespace wild
{
__device__ inline float length(const Vec &v)
{
    return sqrtf(dot(v, v));
}
} // namespace wild
