/* A wide layer on the tensor cores: a block of threads computes tiles of TILE_ROWS rows and COLUMNS columns.
 *
 * Row r is a vector of a QGemm; of a QLinearConv position r % POSITIONS of vector r / POSITIONS.  Column n is an output,
 * or a channel.  A row of a holds the codes of a window, place by place and in it channel by channel; a place outside of
 * the image has the code za.  b has a row for each column, in the same order.
 *
 *     acc[r][n] = bias[n] + sum_k (a[r][k] - za) * (b[k][n] - zb[n])                                          int32
 *               = bias[n] - z * total[n] + sum_k c[r][k] * b[k][n] - zb[n] * sum_k c[r][k]
 *
 * with c[r][k] = a[r][k] - LESS and z = za - LESS, where LESS is 0 or, on sm_72, 128 for uint8, and
 * total[n] = sum_k (b[k][n] - zb[n]), computed by the host.  b is int8: from uint8 weights and zb 128 is subtracted.
 *
 * The host refuses a network whose acc can leave int32; the four parts are added modulo 2^32, so that they may, and the
 * result is acc.  Behind the last product both factors are 0, behind the last row and the last column nothing is kept.
 */
#ifndef TENSOR_CUH
#define TENSOR_CUH

#include "dot4.cuh"
#include "layerwise.cuh"
#include "mma.cuh"

enum : unsigned {
    TILE_THREADS = 128,
    TILE_ROWS = TILE_THREADS / 32 * WARP_ROWS,
    STAGED_ROWS = CHUNKS * chunk_pitch(TILE_ROWS), /* of 16 bytes, as all that is staged; columns follow */
};

/* Tiles and, in shared memory, what a block has of one: the factors of a step, or in their place the sums. */
template <unsigned WIDTH, unsigned COLUMNS> struct Tile {
    enum : unsigned {
        SIDE_BY_SIDE = (WIDTH + COLUMNS - 1) / COLUMNS,
        PITCH = COLUMNS + 8, /* of the sums */
        STAGED = STAGED_ROWS + CHUNKS * chunk_pitch(COLUMNS),
        WORDS = 4 * STAGED > TILE_ROWS * PITCH ? 4 * STAGED : TILE_ROWS * PITCH, /* the sums of codes follow, one a row */
    };
    size_t first_row;
    unsigned first_column;

    __device__ explicit Tile(size_t number)
        : first_row(number / SIDE_BY_SIDE * TILE_ROWS), first_column((unsigned)(number % SIDE_BY_SIDE) * COLUMNS)
    {
    }
    static __device__ size_t count(size_t rows)
    {
        return (rows + TILE_ROWS - 1) / TILE_ROWS * SIDE_BY_SIDE;
    }
    static __device__ int32_t &sum(unsigned r, unsigned c)
    {
        return ((int32_t *)shared_memory)[r * PITCH + c];
    }
    static __device__ uint32_t &sum_of_codes(unsigned r)
    {
        return ((uint32_t *)shared_memory)[WORDS + r];
    }
};

/* The products of the sums: DEPTH to each, INPUTS channels at each place of a window. */
template <typename W, unsigned INPUTS> struct Products {
    enum : unsigned {
        POSITIONS = W::POSITIONS,
        DEPTH = W::SIZE * INPUTS,
        STEPS = (DEPTH + STEP - 1) / STEP,
        VECTOR = INPUTS * W::IMAGE,
        SAME_PLACE = INPUTS % CHUNK == 0, /* all codes of a chunk are of one place */
    };

    /* The codes of a chunk, product `first` and those behind it. */
    template <typename A>
    static __device__ inline uint4 chunk(const A *vector, unsigned position, unsigned first, int32_t za)
    {
        constexpr int LESS = Multiplicand<A>::LESS;
        if constexpr (SAME_PLACE && W::IMAGE == 1 && W::SIZE == 1) {
            if (first >= DEPTH)
                return make_uint4(0, 0, 0, 0);
            const uint4 codes = *(const uint4 *)&vector[first];
            constexpr uint32_t FLIPPED = LESS ? 0x80808080u : 0;
            return make_uint4(codes.x ^ FLIPPED, codes.y ^ FLIPPED, codes.z ^ FLIPPED, codes.w ^ FLIPPED);
        } else {
            uint32_t words[4] = {0, 0, 0, 0};
            for (unsigned i = 0; i < CHUNK; ++i) {
                const unsigned k = first + i, place = (SAME_PLACE ? first : k) / INPUTS;
                const unsigned channel = SAME_PLACE ? first % INPUTS + i : k % INPUTS;
                const unsigned row = W::row(position, place / W::KERNEL_WIDTH);
                const unsigned column = W::column(position, place % W::KERNEL_WIDTH);
                const bool inside = row < W::HEIGHT && column < W::WIDTH;
                const unsigned at = channel * W::IMAGE + row * W::WIDTH + column;
                if (k < DEPTH)
                    words[i / 4] |= (uint32_t)(uint8_t)((inside ? vector[at] : za) - LESS) << (8 * (i % 4));
            }
            return make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
};

/* acc of a tile, into shared memory; weights is (columns of all tiles, STEPS * STEP), zb is nullptr where it is 0.  All
 * threads of the block have to be here; the sums can be read afterwards. */
template <typename P, unsigned WIDTH, unsigned COLUMNS, typename A>
__device__ inline void sum_tile(const A *a, size_t rows, size_t number, const int8_t *weights, const int32_t *total,
                                const int32_t *zb, const int32_t *bias, int32_t za)
{
    using Of = Tile<WIDTH, COLUMNS>;
    using C = typename Multiplicand<A>::Type;
    const Of tile(number);
    uint4 *const staged_a = shared_memory, *const staged_b = shared_memory + STAGED_ROWS;
    const unsigned warp = threadIdx.x / 32;
    uint32_t codes = 0;
    WarpSums<A, COLUMNS> sums;
    sums.clear();
    for (unsigned step = 0; step < P::STEPS; ++step) {
        for (unsigned i = threadIdx.x; i < CHUNKS * TILE_ROWS; i += TILE_THREADS) {
            /* Neighbouring threads read neighbouring bytes: those of a vector, or those of positions. */
            const unsigned c = P::POSITIONS == 1 ? i % CHUNKS : i / TILE_ROWS, r = P::POSITIONS == 1 ? i / CHUNKS : i % TILE_ROWS;
            const size_t row = tile.first_row + r;
            uint4 chunk = make_uint4(0, 0, 0, 0);
            if (row < rows)
                chunk = P::chunk(&a[row / P::POSITIONS * P::VECTOR], (unsigned)(row % P::POSITIONS),
                                 step * STEP + c * CHUNK, za);
            staged_a[c * chunk_pitch(TILE_ROWS) + r] = chunk;
        }
        for (unsigned i = threadIdx.x; i < CHUNKS * COLUMNS; i += TILE_THREADS) {
            const unsigned c = i % CHUNKS, n = i / CHUNKS;
            const int8_t *const column = &weights[(tile.first_column + n) * P::STEPS * STEP];
            staged_b[c * chunk_pitch(COLUMNS) + n] = *(const uint4 *)&column[step * STEP + c * CHUNK];
        }
        __syncthreads();
        sums.add(&staged_a[warp * WARP_ROWS], chunk_pitch(TILE_ROWS), staged_b, chunk_pitch(COLUMNS));
        if (zb != nullptr && threadIdx.x < TILE_ROWS)
            for (unsigned c = 0; c < CHUNKS; ++c) {
                const uint4 chunk = staged_a[c * chunk_pitch(TILE_ROWS) + threadIdx.x];
                codes = dot4<C, int8_t>(chunk.x, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.y, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.z, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.w, 0x01010101u, codes);
            }
        __syncthreads();
    }
    sums.write(&Of::sum(warp * WARP_ROWS, 0), Of::PITCH);
    if (zb != nullptr && threadIdx.x < TILE_ROWS)
        Of::sum_of_codes(threadIdx.x) = codes;
    __syncthreads();
    const uint32_t z = (uint32_t)(za - Multiplicand<A>::LESS);
    for (unsigned i = threadIdx.x; i < TILE_ROWS * COLUMNS; i += TILE_THREADS) {
        const unsigned r = i / COLUMNS, c = i % COLUMNS, n = tile.first_column + c;
        if (n >= WIDTH)
            continue;
        uint32_t acc = (uint32_t)Of::sum(r, c) + (uint32_t)bias[n] - z * (uint32_t)total[n];
        if (zb != nullptr)
            acc -= (uint32_t)zb[n] * Of::sum_of_codes(r);
        Of::sum(r, c) = (int32_t)acc;
    }
    __syncthreads();
}

/* Every tile by some block.  For the proof `part` makes it stop at the sums, or begin with sums that are given. */
template <typename P, unsigned WIDTH, unsigned COLUMNS, typename A, typename Y, typename Accumulate, typename Finish>
__device__ inline void contract_tiles(unsigned vectors, const A *a, Y *y, part part, int32_t *sums,
                                      const Accumulate &accumulate, const Finish &finish)
{
    using Of = Tile<WIDTH, COLUMNS>;
    const size_t rows = (size_t)vectors * P::POSITIONS;
    for (size_t number = blockIdx.x; number < Of::count(rows); number += gridDim.x) {
        const Of tile(number);
        if (part != FINISH)
            accumulate(a, rows, number);
        for (unsigned i = threadIdx.x; i < TILE_ROWS * COLUMNS; i += TILE_THREADS) {
            /* Neighbouring threads write neighbouring outputs. */
            const unsigned r = P::POSITIONS == 1 ? i / COLUMNS : i % TILE_ROWS, c = P::POSITIONS == 1 ? i % COLUMNS : i / TILE_ROWS;
            const size_t row = tile.first_row + r;
            const unsigned n = tile.first_column + c;
            if (row >= rows || n >= WIDTH)
                continue;
            const size_t at = (row / P::POSITIONS * WIDTH + n) * P::POSITIONS + row % P::POSITIONS;
            const int32_t acc = part == FINISH ? sums[at] : Of::sum(r, c);
            if (part == ACCUMULATE)
                sums[at] = acc;
            else
                y[at] = finish(acc, n);
        }
        __syncthreads();
    }
}

#endif
