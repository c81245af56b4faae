// atomicAdd for double as it is written for old GPUs, and a sum by keys with it.
__device__ double atomic_add(double *address, double value)
{
    unsigned long long int *word = (unsigned long long int *)address;
    unsigned long long int old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

template <class Key>
__global__ void sum_by_key(const Key *keys, const double *values, double *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomic_add(&sums[keys[i]], values[i]);
}
