#include <cstdint>
#include <optional>
#include <variant>

struct Move { int dx, dy; };
struct Turn { int quarters; };
using Event = std::variant<std::monostate, Move, Turn>;

__device__ Event decode(std::uint32_t word) {
    int low = word & 15, high = word >> 4 & 15;
    if (word >> 8 == 1) return Move{low - 8, high - 8};
    if (word >> 8 == 2) return Turn{low};
    return {};
}

__device__ std::optional<int> cost(const Event& event) {
    if (const Move* move = std::get_if<Move>(&event)) return abs(move->dx) + abs(move->dy);
    if (std::holds_alternative<Turn>(event)) return 10 * std::get<Turn>(event).quarters;
    return std::nullopt;
}

extern "C" __global__ void costs(const std::uint32_t* words, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = cost(decode(words[i])).value_or(-1);
}
