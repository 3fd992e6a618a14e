/* The instructions of tensor cores (kernels/cuda/mma.cuh) for a processor: what each thread of a warp has in registers.
 *
 * Where an element of a matrix lies is written down from NVIDIA's "Parallel Thread Execution ISA", "Matrix Fragments for
 * mma.m16n8k32" and "for mma.m8n8k16", with g = lane / 4 and t = lane % 4:
 *
 *     a   row g (+ 8), products 4 * t + i (+ 16): byte i of a register; registers by rows, then by products
 *     b   column g, products 4 * t + i (+ 16): byte i of a register
 *     c   row g (+ 8), columns 2 * t and 2 * t + 1: a register each
 *
 * For wmma it says only that the elements lie somewhere: here in an order that nobody would guess.
 */
#ifndef MMA_ON_CPU_H
#define MMA_ON_CPU_H

#include "block.h"

/* The factors that each thread of the block has given to an instruction: those of a first, then those of b. */
constexpr unsigned SIMULATED_FACTORS = 6;
static uint32_t simulated_factors[1024][SIMULATED_FACTORS];

static inline const uint32_t *simulated_lane(unsigned lane)
{
    return simulated_factors[(simulated_thread() & ~(SIMULATED_WARP - 1)) + lane];
}

template <typename T> static inline int32_t simulated_byte(uint32_t word, unsigned i)
{
    return (T)(word >> (8 * i));
}

/* Sum of the products of a row and a column, whose elements the layouts find. */
template <typename A>
static inline uint32_t simulated_products(unsigned depth, unsigned row, unsigned column, unsigned registers_of_a)
{
    uint32_t sum = 0;
    for (unsigned k = 0; k < depth; ++k) {
        const unsigned t = k % 16 / 4;
        const uint32_t a = simulated_lane(row % 8 * 4 + t)[row / 8 + k / 16 * 2];
        const uint32_t b = simulated_lane(column * 4 + t)[registers_of_a + k / 16];
        sum += (uint32_t)(simulated_byte<A>(a, k % 4) * simulated_byte<int8_t>(b, k % 4));
    }
    return sum;
}

static inline void simulated_give(unsigned count, const uint32_t *factors)
{
    memcpy(simulated_factors[simulated_thread()], factors, count * sizeof *factors);
    simulated_warp_barrier({__FILE__, __LINE__});
}

static inline void simulated_taken()
{
    simulated_warp_barrier({__FILE__, __LINE__});
}

template <typename A>
static inline void mma_16_8_32(int32_t (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                               uint32_t b1)
{
    const uint32_t factors[] = {a0, a1, a2, a3, b0, b1};
    const unsigned lane = simulated_thread() % SIMULATED_WARP;
    simulated_give(6, factors);
    for (unsigned i = 0; i < 4; ++i)
        sums[i] = (int32_t)((uint32_t)sums[i] + simulated_products<A>(32, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, 4));
    simulated_taken();
}

template <typename A> static inline void mma_8_8_16(int32_t &sum0, int32_t &sum1, uint32_t a, uint32_t b)
{
    const uint32_t factors[] = {a, b};
    const unsigned lane = simulated_thread() % SIMULATED_WARP;
    simulated_give(2, factors);
    sum0 = (int32_t)((uint32_t)sum0 + simulated_products<A>(16, lane / 4, lane % 4 * 2, 1));
    sum1 = (int32_t)((uint32_t)sum1 + simulated_products<A>(16, lane / 4, lane % 4 * 2 + 1, 1));
    simulated_taken();
}

/* Of a matrix of 16 times 16 elements, that which is the ith of a thread, row by row. */
static inline unsigned simulated_element(unsigned lane, unsigned i)
{
    return (lane * 8 + i) * 77 % 256;
}

/* Where element e lies: at place 8 * lane + i. */
static_assert(133 * 77 % 256 == 1, "the inverse");
static inline unsigned simulated_place(unsigned e)
{
    return e * 133 % 256;
}

static inline void simulated_load(uint32_t (&registers)[2], const uint4 *lines)
{
    simulated_warp_barrier({__FILE__, __LINE__});
    registers[0] = registers[1] = 0;
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(simulated_thread() % SIMULATED_WARP, i);
        registers[i / 4] |= (uint32_t)((const uint8_t *)lines)[e] << (8 * (i % 4));
    }
}

static inline void wmma_load_a(uint32_t (&a)[2], const uint4 *rows)
{
    simulated_load(a, rows);
}

static inline void wmma_load_b(uint32_t (&b)[2], const uint4 *columns)
{
    simulated_load(b, columns);
}

static inline void wmma_multiply(int32_t (&sums)[8], const uint32_t (&a)[2], const uint32_t (&b)[2])
{
    const uint32_t factors[] = {a[0], a[1], b[0], b[1]};
    simulated_give(4, factors);
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(simulated_thread() % SIMULATED_WARP, i);
        uint32_t sum = (uint32_t)sums[i];
        for (unsigned k = 0; k < 16; ++k) {
            const unsigned in_a = simulated_place(e / 16 * 16 + k), in_b = simulated_place(e % 16 * 16 + k);
            const uint32_t x = simulated_lane(in_a / 8)[in_a % 8 / 4], y = simulated_lane(in_b / 8)[2 + in_b % 8 / 4];
            sum += (uint32_t)(simulated_byte<int8_t>(x, in_a % 4) * simulated_byte<int8_t>(y, in_b % 4));
        }
        sums[i] = (int32_t)sum;
    }
    simulated_taken();
}

static inline void wmma_store(int32_t *to, const int32_t (&sums)[8], unsigned pitch)
{
    simulated_warp_barrier({__FILE__, __LINE__});
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(simulated_thread() % SIMULATED_WARP, i);
        to[e / 16 * pitch + e % 16] = sums[i];
    }
}

#endif
