namespace filter {
static __device__ unsigned rotate(unsigned value, int bits)
{
    return value << bits | value >> (32 - bits);
}

__device__ int mix(int value, int round)
{
    return (int)(rotate((unsigned)value ^ (unsigned)round * 0x9e3779b9u, 13) * 5u + 0xe6546b64u);
}
}
