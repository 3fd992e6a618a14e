/* A wide layer on the tensor cores: a block of threads computes tiles of TILE_ROWS rows and COLUMNS columns.
 *
 * Row r is a vector of a QGemm; of a QLinearConv position r % POSITIONS of vector r / POSITIONS.  Column n is an output,
 * or a channel.  A row of a holds the codes of a window, place by place and in it channel by channel; a place outside of
 * the image has the code za.  b has a row for each column, in the same order.
 *
 *     acc[r][n] = bias[n] + sum_k (a[r][k] - za) * (b[k][n] - zb[n])                                          int32
 *               = offset[n] + LESS * total[n] + sum_k c[r][k] * b[k][n] - zb[n] * sum_k c[r][k]
 *
 *     total[n]  = sum_k (b[k][n] - zb[n])            computed by the host
 *     offset[n] = bias[n] - za * total[n]            computed by the host
 *     c[r][k]   = a[r][k] - LESS                     LESS is 0, or 128 for uint8 on sm_72
 *
 * b is int8: from uint8 weights and zb 128 is subtracted.
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

/* A row of a tile. */
struct TileRow {
    size_t vector;
    unsigned position;
};

/* Tiles and, in shared memory, what a block has of one: the factors of a step, or in their place the sums. */
template <unsigned POSITIONS, unsigned WIDTH, unsigned COLUMNS> struct Tile {
    enum : unsigned {
        SIDE_BY_SIDE = (WIDTH + COLUMNS - 1) / COLUMNS,
        FOURS = TILE_ROWS * COLUMNS / 4,
        /* Sums that stand side by side become outputs that do: those of neighbouring columns, or of positions. */
        ALONG = POSITIONS == 1 ? COLUMNS : TILE_ROWS,
        ACROSS = POSITIONS == 1 ? TILE_ROWS : COLUMNS,
        PITCH = ALONG + 4,
        STAGED = 4 * (STAGED_ROWS + CHUNKS * chunk_pitch(COLUMNS)),
        SUMS = TILE_THREADS / 32 * SCRATCH, /* behind the warps' scratch memory */
        WORDS = STAGED > SUMS + ACROSS * PITCH ? STAGED : SUMS + ACROSS * PITCH, /* a sum of codes for each row follows */
    };
    size_t first_vector;
    unsigned first_position, first_column;

    __device__ explicit Tile(size_t number)
        : first_vector(number / SIDE_BY_SIDE * TILE_ROWS / POSITIONS),
          first_position((unsigned)(number / SIDE_BY_SIDE * TILE_ROWS % POSITIONS)),
          first_column((unsigned)(number % SIDE_BY_SIDE) * COLUMNS)
    {
    }
    __device__ TileRow row(unsigned r) const
    {
        return {first_vector + (first_position + r) / POSITIONS, (first_position + r) % POSITIONS};
    }
    static __device__ size_t count(unsigned vectors)
    {
        return ((size_t)vectors * POSITIONS + TILE_ROWS - 1) / TILE_ROWS * SIDE_BY_SIDE;
    }
    static __device__ int32_t &sum(unsigned r, unsigned c)
    {
        return ((int32_t *)shared_memory)[SUMS + (POSITIONS == 1 ? r * PITCH + c : c * PITCH + r)];
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
        OUTSIDE = W::IMAGE,
    };

    /* Returns the index in the image of a place of a window. */
    static __device__ inline unsigned at(unsigned position, unsigned place)
    {
        const unsigned row = W::row(position, place / W::KERNEL_WIDTH);
        const unsigned column = W::column(position, place % W::KERNEL_WIDTH);
        return row < W::HEIGHT && column < W::WIDTH ? row * W::WIDTH + column : (unsigned)OUTSIDE;
    }

    /* The codes of a chunk, product `first` and those behind it, less LESS. */
    template <typename A>
    static __device__ inline uint4 chunk(const A *vector, unsigned position, unsigned first, int32_t za)
    {
        constexpr uint32_t LESS = Multiplicand<A>::LESS;
        uint32_t words[4] = {0, 0, 0, 0};
        if (first >= DEPTH)
            return make_uint4(0, 0, 0, 0);
        if constexpr (SAME_PLACE) {
            const unsigned place = at(position, first / INPUTS);
            if (place != OUTSIDE) {
                const uint8_t *const from = (const uint8_t *)&vector[first % INPUTS * W::IMAGE + place];
                if constexpr (W::IMAGE == 1) {
                    const uint4 codes = *(const uint4 *)from;
                    return make_uint4(less<LESS>(codes.x), less<LESS>(codes.y), less<LESS>(codes.z), less<LESS>(codes.w));
                }
                for (unsigned i = 0; i < CHUNK; ++i)
                    words[i / 4] |= (uint32_t)from[i * W::IMAGE] << (8 * (i % 4));
            } else {
                for (unsigned w = 0; w < 4; ++w)
                    words[w] = (uint8_t)za * 0x01010101u;
            }
            for (unsigned w = 0; w < 4; ++w)
                words[w] = less<LESS>(words[w]);
        } else {
            unsigned place = first / INPUTS, channel = first % INPUTS, from = at(position, place);
            for (unsigned i = 0; i < CHUNK; ++i) {
                const int32_t code = from != OUTSIDE ? vector[channel * W::IMAGE + from] : za;
                if (first + i < DEPTH)
                    words[i / 4] |= ((uint8_t)code ^ LESS) << (8 * (i % 4));
                if (++channel == INPUTS) {
                    channel = 0;
                    from = at(position, ++place);
                }
            }
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }

    /* LESS, 0 or 128, subtracted of four codes. */
    template <uint32_t LESS> static __device__ inline uint32_t less(uint32_t codes)
    {
        return codes ^ LESS * 0x01010101u;
    }
};

/* acc of a tile, into shared memory; weights is (columns of all tiles, STEPS * STEP), zb is nullptr where it is 0.  All
 * threads of the block have to be here; the sums can be read afterwards. */
template <typename P, unsigned WIDTH, unsigned COLUMNS, typename A>
__device__ inline void sum_tile(const A *a, unsigned vectors, size_t number, const int8_t *weights,
                                const uint32_t *offset, const int32_t *total, const int32_t *zb, int32_t za)
{
    using Of = Tile<P::POSITIONS, WIDTH, COLUMNS>;
    using C = typename Multiplicand<A>::Type;
    const Of tile(number);
    uint4 *const staged_a = shared_memory, *const staged_b = shared_memory + STAGED_ROWS;
    const unsigned first = threadIdx.x / 32 * WARP_ROWS; /* row of the warp */
    uint32_t codes = 0;
    WarpSums<A, COLUMNS> sums;
    sums.clear();
    for (unsigned step = 0; step < P::STEPS; ++step) {
        for (unsigned j = 0; j < CHUNKS * TILE_ROWS / TILE_THREADS; ++j) {
            const unsigned i = j * TILE_THREADS + threadIdx.x;
            /* Neighbouring threads read neighbouring bytes: those of a vector, or those of positions. */
            const unsigned c = P::POSITIONS == 1 ? i % CHUNKS : i / TILE_ROWS;
            const unsigned r = P::POSITIONS == 1 ? i / CHUNKS : i % TILE_ROWS;
            const TileRow row = tile.row(r);
            uint4 chunk = make_uint4(0, 0, 0, 0);
            if (row.vector < vectors)
                chunk = P::chunk(&a[row.vector * P::VECTOR], row.position, step * STEP + c * CHUNK, za);
            staged_a[c * chunk_pitch(TILE_ROWS) + r] = chunk;
        }
        for (unsigned i = threadIdx.x; i < CHUNKS * COLUMNS; i += TILE_THREADS) {
            const unsigned c = i % CHUNKS, n = i / CHUNKS;
            const int8_t *const column = &weights[(tile.first_column + n) * P::STEPS * STEP];
            staged_b[c * chunk_pitch(COLUMNS) + n] = *(const uint4 *)&column[step * STEP + c * CHUNK];
        }
        __syncthreads();
        sums.add(&staged_a[first], chunk_pitch(TILE_ROWS), staged_b, chunk_pitch(COLUMNS));
        if (zb != nullptr && threadIdx.x < TILE_ROWS) {
            for (unsigned c = 0; c < CHUNKS; ++c) {
                const uint4 chunk = staged_a[c * chunk_pitch(TILE_ROWS) + threadIdx.x];
                codes = dot4<C, int8_t>(chunk.x, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.y, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.z, 0x01010101u, codes);
                codes = dot4<C, int8_t>(chunk.w, 0x01010101u, codes);
            }
            Of::sum_of_codes(threadIdx.x) = codes;
        }
        __syncthreads();
    }
    sums.each((int32_t *)shared_memory + threadIdx.x / 32 * SCRATCH, [&](unsigned r, unsigned c, int32_t sum) {
        const unsigned n = tile.first_column + c;
        uint32_t acc = (uint32_t)sum + offset[n];
        if (Multiplicand<A>::LESS != 0)
            acc += (uint32_t)Multiplicand<A>::LESS * (uint32_t)total[n];
        if (zb != nullptr)
            acc -= (uint32_t)zb[n] * Of::sum_of_codes(first + r);
        Of::sum(first + r, c) = (int32_t)acc;
    });
    __syncthreads();
}

/* Value i of four: a code, a float32 or a sum. */
template <typename Y> __device__ inline Y of_four(uint32_t codes, unsigned i)
{
    return (Y)(codes >> (8 * i));
}

template <typename Y, typename Four> __device__ inline Y of_four(const Four &values, unsigned i)
{
    return i < 2 ? (i == 0 ? values.x : values.y) : (i == 2 ? values.z : values.w);
}

/* Every tile by some block.  For the proof `part` makes it stop at the sums, or begin with sums that are given. */
template <typename P, unsigned WIDTH, unsigned COLUMNS, typename A, typename Y, typename Accumulate, typename Finish>
__device__ inline void contract_tiles(unsigned vectors, const A *a, Y *y, part part, int32_t *sums,
                                      const Accumulate &accumulate, const Finish &finish)
{
    using Of = Tile<P::POSITIONS, WIDTH, COLUMNS>;
    using Made = decltype(finish(make_int4(0, 0, 0, 0), 0));
    constexpr bool DENSE = P::POSITIONS == 1;
    constexpr bool TOGETHER = (DENSE ? WIDTH : P::POSITIONS) % 4 == 0; /* four outputs are there, or none */
    for (size_t number = blockIdx.x; number < Of::count(vectors); number += gridDim.x) {
        const Of tile(number);
        if (part != FINISH)
            accumulate(a, vectors, number);
        for (unsigned j = 0; j < Of::FOURS / TILE_THREADS; ++j) {
            const unsigned i = j * TILE_THREADS + threadIdx.x;
            const unsigned along = 4 * (i % (Of::ALONG / 4)), across = i / (Of::ALONG / 4);
            const unsigned r = DENSE ? across : along, c = DENSE ? along : across, n = tile.first_column + c;
            const auto place = [&](unsigned k, size_t &at) {
                const TileRow row = tile.row(DENSE ? r : r + k);
                const unsigned column = DENSE ? n + k : n;
                at = row.vector * (WIDTH * P::POSITIONS) + column * P::POSITIONS + row.position;
                return row.vector < vectors && column < WIDTH;
            };
            int4 acc = *(const int4 *)&Of::sum(r, c);
            size_t at;
            if (!place(0, at))
                continue;
            if (TOGETHER) {
                if (part == FINISH)
                    acc = *(const int4 *)&sums[at];
                if (part == ACCUMULATE)
                    *(int4 *)&sums[at] = acc;
                else
                    *(Made *)&y[at] = finish(acc, DENSE ? n / 4 : n);
                continue;
            }
            if (part == FINISH) {
                int32_t each[4] = {0, 0, 0, 0};
                for (unsigned k = 0; k < 4; ++k)
                    if (place(k, at))
                        each[k] = sums[at];
                acc = make_int4(each[0], each[1], each[2], each[3]);
            }
            const Made made = part == ACCUMULATE ? Made() : finish(acc, DENSE ? n / 4 : n);
            for (unsigned k = 0; k < 4; ++k) {
                if (!place(k, at))
                    continue;
                if (part == ACCUMULATE)
                    sums[at] = of_four<int32_t>(acc, k);
                else
                    y[at] = of_four<Y>(made, k);
            }
        }
        __syncthreads();
    }
}

#endif
