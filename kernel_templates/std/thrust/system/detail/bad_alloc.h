/* In the place of Thrust's own, which holds a std::string. */
#ifndef KILN_STD_THRUST_SYSTEM_DETAIL_BAD_ALLOC_H
#define KILN_STD_THRUST_SYSTEM_DETAIL_BAD_ALLOC_H

#include <thrust/detail/config.h>

THRUST_NAMESPACE_BEGIN
namespace system
{
namespace detail
{
struct bad_alloc {
    __device__ explicit bad_alloc(const char *) {}
};
} // namespace detail
} // namespace system
THRUST_NAMESPACE_END

#endif
