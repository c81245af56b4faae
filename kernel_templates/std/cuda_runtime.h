/* NVRTC has the types and functions built in; this is what nvcc's brings along. */
#ifndef KILN_STD_CUDA_RUNTIME_H
#define KILN_STD_CUDA_RUNTIME_H

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#endif
