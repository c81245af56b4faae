/* Stands before each header of Thrust: the backend without CUDA's runtime, and names of the C++ library that Kiln's
 * other headers do not bring. */
#ifndef KILN_STD_THRUST_KILN_H
#define KILN_STD_THRUST_KILN_H

#ifndef THRUST_DEVICE_SYSTEM
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <cstdint>
#include <cuda/std/iterator>
#include <thrust/detail/config.h>
#include <utility>

THRUST_NAMESPACE_BEGIN
template <class Element, class Tag, class Reference, class Derived> class pointer;
THRUST_NAMESPACE_END

/* Thrust specialises std::iterator_traits, and relies on cuda::std's being the same. */
namespace std {
template <class Iterator> struct iterator_traits : cuda::std::iterator_traits<Iterator> {
};
struct runtime_error {
    __device__ explicit runtime_error(const char *) {}
};
} // namespace std

template <class Element, class Tag, class Reference, class Derived>
struct cuda::std::iterator_traits<THRUST_NS_QUALIFIER::pointer<Element, Tag, Reference, Derived>> {
    using pointer = THRUST_NS_QUALIFIER::pointer<Element, Tag, Reference, Derived>;
    using iterator_category = typename pointer::iterator_category;
    using value_type = typename pointer::value_type;
    using difference_type = typename pointer::difference_type;
    using reference = typename pointer::reference;
};

#endif
