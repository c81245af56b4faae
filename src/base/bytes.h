/* Little-endian integers in file formats. Pure; any alignment. */
#ifndef KILN_BASE_BYTES_H
#define KILN_BASE_BYTES_H

#include <stdint.h>

static inline void kiln__write_u16(uint8_t *to, uint16_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static inline void kiln__write_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static inline void kiln__write_u64(uint8_t *to, uint64_t value)
{
    kiln__write_u32(to, (uint32_t)value);
    kiln__write_u32(to + 4, (uint32_t)(value >> 32));
}

static inline uint16_t kiln__read_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline uint32_t kiln__read_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t kiln__read_u64(const uint8_t *from)
{
    return kiln__read_u32(from) | (uint64_t)kiln__read_u32(from + 4) << 32;
}

#endif
