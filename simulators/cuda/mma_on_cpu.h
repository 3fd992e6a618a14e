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

/* The factors of a warp, element by element: each thread puts there what it has in registers. */
struct simulated_factors {
    int32_t a[16][32]; /* rows */
    int32_t b[16][32]; /* columns */
};
static simulated_factors simulated_of_warps[1024 / SIMULATED_WARP];

static inline simulated_factors &simulated_of_warp()
{
    return simulated_of_warps[simulated_thread() / SIMULATED_WARP];
}

/* The four bytes of a register. */
template <typename T> static inline void simulated_put(int32_t *elements, uint32_t word)
{
    for (unsigned i = 0; i < 4; ++i)
        elements[i] = (T)(word >> (8 * i));
}

/* sum + the products of a row and a column */
static inline int32_t simulated_products(int32_t sum, const int32_t *row, const int32_t *column, unsigned depth)
{
    uint32_t total = (uint32_t)sum;
    for (unsigned k = 0; k < depth; ++k)
        total += (uint32_t)(row[k] * column[k]);
    return (int32_t)total;
}

/* All threads of the warp have given their factors, or have taken all that they need. */
static inline void simulated_meet()
{
    simulated_warp_barrier({__FILE__, __LINE__});
}

template <typename A>
static inline void mma_16_8_32(int32_t (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                               uint32_t b1)
{
    const unsigned g = simulated_thread() % SIMULATED_WARP / 4, t = simulated_thread() % 4;
    simulated_factors &factors = simulated_of_warp();
    simulated_put<A>(&factors.a[g][4 * t], a0);
    simulated_put<A>(&factors.a[g + 8][4 * t], a1);
    simulated_put<A>(&factors.a[g][4 * t + 16], a2);
    simulated_put<A>(&factors.a[g + 8][4 * t + 16], a3);
    simulated_put<int8_t>(&factors.b[g][4 * t], b0);
    simulated_put<int8_t>(&factors.b[g][4 * t + 16], b1);
    simulated_meet();
    for (unsigned i = 0; i < 4; ++i)
        sums[i] = simulated_products(sums[i], factors.a[g + i / 2 * 8], factors.b[2 * t + i % 2], 32);
    simulated_meet();
}

template <typename A> static inline void mma_8_8_16(int32_t &sum0, int32_t &sum1, uint32_t a, uint32_t b)
{
    const unsigned g = simulated_thread() % SIMULATED_WARP / 4, t = simulated_thread() % 4;
    simulated_factors &factors = simulated_of_warp();
    simulated_put<A>(&factors.a[g][4 * t], a);
    simulated_put<int8_t>(&factors.b[g][4 * t], b);
    simulated_meet();
    sum0 = simulated_products(sum0, factors.a[g], factors.b[2 * t], 16);
    sum1 = simulated_products(sum1, factors.a[g], factors.b[2 * t + 1], 16);
    simulated_meet();
}

/* Returns the index, row by row, of the ith element of a thread in a matrix of 16 times 16 elements. */
static inline unsigned simulated_element(unsigned lane, unsigned i)
{
    return (lane * 8 + i) * 77 % 256;
}

static inline void simulated_load(uint32_t (&registers)[2], const uint4 *lines)
{
    simulated_meet();
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
    const unsigned lane = simulated_thread() % SIMULATED_WARP;
    simulated_factors &factors = simulated_of_warp();
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(lane, i);
        factors.a[e / 16][e % 16] = (int8_t)(a[i / 4] >> (8 * (i % 4)));
        factors.b[e / 16][e % 16] = (int8_t)(b[i / 4] >> (8 * (i % 4)));
    }
    simulated_meet();
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(lane, i);
        sums[i] = simulated_products(sums[i], factors.a[e / 16], factors.b[e % 16], 16);
    }
    simulated_meet();
}

static inline void wmma_store(int32_t *to, const int32_t (&sums)[8], unsigned pitch)
{
    simulated_meet();
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned e = simulated_element(simulated_thread() % SIMULATED_WARP, i);
        to[e / 16 * pitch + e % 16] = sums[i];
    }
}

#endif
