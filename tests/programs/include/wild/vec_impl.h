#pragma once

namespace wild
{
struct Vec {
    float x, y;
};
__device__ inline float dot(const Vec &a, const Vec &b)
{
    return a.x * b.x + a.y * b.y;
}
} // namespace wild
