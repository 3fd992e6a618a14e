/* All layers of a launch in one kernel: a block of threads carries its vectors through them in shared memory.
 *
 * threadIdx.x is a vector of the block, threadIdx.y a lane: lanes share out the words of a vector among them.
 * An activation lies in words, those of a vector STRIDE apart: word w of vector v at [w * STRIDE + v], so that threads
 * of neighbouring vectors never meet in a memory bank.  A word holds four codes, the first in its lowest byte, or one
 * float32, int32 or index.
 *
 * A QGemm computes groups of four outputs, by dp4a: four products of a word of codes and a word of weights, and their
 * sum.  b is packed: the weights of group g and word w, one word for each of its outputs, stand at [g * WORDS + w],
 * and are 0 behind the last input and behind the last output.
 *
 *     offset[n] = bias[n] - za * sum_k b[k][n] + DEPTH * za * zb[n]             computed by the host
 *     acc[n]    = offset[n] + sum_k a[k] * b[k][n] - zb[n] * sum_k a[k]
 *
 * The host refuses a network whose acc can leave int32; the parts are added modulo 2^32, so that they may.
 * Every function that writes shared memory ends with a barrier: what it wrote can be read.
 */
#ifndef FUSED_CUH
#define FUSED_CUH

#include "dot4.cuh"
#include "operators.cuh"
#include "rounding.cuh"

enum {
    STRIDE = VECTORS + 1, /* VECTORS, the most that a block carries, is defined by the generated code */
    STAGED = 512,         /* of packed weights, in units of 16 bytes */
};

template <typename T> __host__ __device__ constexpr unsigned words(unsigned width)
{
    return sizeof(T) == 1 ? (width + 3) / 4 : width;
}

__device__ inline unsigned lane_count()
{
    return blockDim.y;
}

/* The vectors that this block carries: `count` from `first` on. */
struct Carried {
    size_t first;
    unsigned count;
};

__device__ inline Carried carried(unsigned vectors)
{
    const size_t first = (size_t)blockIdx.x * blockDim.x;
    const size_t left = vectors - first;
    return {first, left < blockDim.x ? (unsigned)left : blockDim.x};
}

/* The values of one vector: x[n] is the nth. */
template <typename T> struct Values {
    const uint32_t *tile;
    __device__ T operator[](unsigned n) const
    {
        if (sizeof(T) == 1)
            return (T)(tile[n / 4 * STRIDE] >> (8 * (n % 4)));
        return (T)tile[n * STRIDE];
    }
};

template <> __device__ inline float Values<float>::operator[](unsigned n) const
{
    return __uint_as_float(tile[n * STRIDE]);
}

__device__ inline uint32_t bits(float value)
{
    return __float_as_uint(value);
}

template <typename T> __device__ inline uint32_t bits(T value)
{
    return (uint32_t)value;
}

/* Word w of `width` values, of which value(n) is the nth; codes are 0 behind the last. */
template <typename T, typename Value> __device__ inline uint32_t word(unsigned w, unsigned width, const Value &value)
{
    if constexpr (sizeof(T) != 1)
        return bits(value(w));
    uint32_t packed = 0;
    if constexpr (sizeof(T) == 1)
        for (unsigned i = 0; i < 4; ++i)
            if (4 * w + i < width)
                packed |= (uint32_t)(uint8_t)value(4 * w + i) << (8 * i);
    return packed;
}

/* Every vector's words, made of its values: value(v, n) is the nth of vector v. */
template <typename T, unsigned WIDTH, typename Value> __device__ inline void fill(uint32_t *tile, const Value &value)
{
    const unsigned v = threadIdx.x;
    for (unsigned w = threadIdx.y; w < words<T>(WIDTH); w += lane_count())
        tile[w * STRIDE + v] = word<T>(w, WIDTH, [&](unsigned n) { return value(v, n); });
    __syncthreads();
}

/* From global memory, where the vectors stand PITCH values apart. */
template <typename T, unsigned WIDTH, unsigned PITCH = WIDTH>
__device__ inline void load(Carried vectors, const T *rows, uint32_t *tile)
{
    fill<T, WIDTH>(tile, [&](unsigned v, unsigned n) {
        return v < vectors.count ? rows[(vectors.first + v) * PITCH + n] : (T)0;
    });
}

/* Into global memory, (vectors, WIDTH), neighbouring threads side by side; nowhere if nobody asks for it. */
template <typename T, unsigned WIDTH> __device__ inline void store(Carried vectors, const uint32_t *tile, void *memory)
{
    T *const rows = (T *)memory;
    if (rows == nullptr)
        return;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (unsigned i = thread; i < vectors.count * WIDTH; i += threads)
        rows[vectors.first * WIDTH + i] = Values<T>{&tile[i / WIDTH]}[i % WIDTH];
}

/* Elements 4g to 4g + 3 of a table, whose length is a multiple of four. */
template <typename Four, typename T> __device__ inline const Four &four(const T *table, unsigned g)
{
    return ((const Four *)table)[g];
}

/* A 1 for each code of word w: what stands behind the last input is no input. */
template <unsigned DEPTH> __device__ inline uint32_t ones(unsigned w)
{
    return w < DEPTH / 4 ? 0x01010101u : (1u << (8 * (DEPTH % 4))) / 255u;
}

/* acc of four outputs; a is the words of a vector, b those of the group, zb nullptr where all are 0. */
template <typename A, typename B, unsigned DEPTH>
__device__ inline int4 accumulate_four(const uint32_t *a, const uint4 *b, uint4 offset, const uint4 *zb)
{
    uint4 acc = offset;
    uint32_t sum_a = 0;
    for (unsigned w = 0; w < words<A>(DEPTH); ++w) {
        const uint32_t codes = a[w * STRIDE];
        const uint4 weights = b[w];
        acc.x = dot4<A, B>(codes, weights.x, acc.x);
        acc.y = dot4<A, B>(codes, weights.y, acc.y);
        acc.z = dot4<A, B>(codes, weights.z, acc.z);
        acc.w = dot4<A, B>(codes, weights.w, acc.w);
        if (zb != nullptr)
            sum_a = dot4<A, uint8_t>(codes, ones<DEPTH>(w), sum_a);
    }
    if (zb != nullptr)
        acc = make_uint4(acc.x - zb->x * sum_a, acc.y - zb->y * sum_a, acc.z - zb->z * sum_a, acc.w - zb->w * sum_a);
    return make_int4((int32_t)acc.x, (int32_t)acc.y, (int32_t)acc.z, (int32_t)acc.w);
}

/* A word of four codes. */
template <typename Code> __device__ inline uint32_t requantize_four(int4 acc, float4 m, int32_t zero_point)
{
    const uint32_t x = (uint8_t)requantize<Code>(acc.x, m.x, zero_point);
    const uint32_t y = (uint8_t)requantize<Code>(acc.y, m.y, zero_point);
    const uint32_t z = (uint8_t)requantize<Code>(acc.z, m.z, zero_point);
    const uint32_t w = (uint8_t)requantize<Code>(acc.w, m.w, zero_point);
    return x | y << 8 | z << 16 | w << 24;
}

__device__ inline float4 scale_four(int4 acc, float4 m)
{
    return make_float4(scale_accumulator(acc.x, m.x), scale_accumulator(acc.y, m.y), scale_accumulator(acc.z, m.z),
                       scale_accumulator(acc.w, m.w));
}

/* What finishing group g gives, to its place in the tile: one word of codes, or up to four values. */
template <unsigned WIDTH> __device__ inline void put(uint32_t *tile, unsigned g, uint32_t codes)
{
    tile[g * STRIDE] = codes;
}

template <unsigned WIDTH> __device__ inline void put(uint32_t *tile, unsigned g, float4 y)
{
    const float each[] = {y.x, y.y, y.z, y.w};
    for (unsigned i = 0; i < 4; ++i)
        if (4 * g + i < WIDTH)
            tile[(4 * g + i) * STRIDE] = bits(each[i]);
}

/* Sums of a QGemm in global memory, (vectors, WIDTH). */
template <unsigned WIDTH> struct Sums {
    Carried vectors;
    int32_t *rows;
    __device__ bool has(unsigned n) const
    {
        return threadIdx.x < vectors.count && n < WIDTH;
    }
    __device__ int32_t &at(unsigned n) const
    {
        return rows[(vectors.first + threadIdx.x) * WIDTH + n];
    }
    __device__ int4 read(unsigned g) const
    {
        const auto sum = [&](unsigned i) { return has(4 * g + i) ? at(4 * g + i) : 0; };
        return make_int4(sum(0), sum(1), sum(2), sum(3));
    }
    __device__ void write(unsigned g, int4 acc) const
    {
        const int32_t each[] = {acc.x, acc.y, acc.z, acc.w};
        for (unsigned i = 0; i < 4; ++i)
            if (has(4 * g + i))
                at(4 * g + i) = each[i];
    }
};

/* The groups of a QGemm, with as many of their weights at a time as `staged` holds.  For the proof `part` makes it stop
 * at the sums, or begin with sums that are given. */
template <unsigned WORDS, unsigned WIDTH, typename Accumulate, typename Finish>
__device__ inline void qgemm(const uint4 *b, uint4 *staged, const uint32_t *in, uint32_t *out, part part,
                             const Sums<WIDTH> &sums, const Accumulate &accumulate, const Finish &finish)
{
    constexpr unsigned GROUPS = (WIDTH + 3) / 4, AT_ONCE = STAGED / WORDS;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (unsigned begin = 0; begin < GROUPS; begin += AT_ONCE) {
        const unsigned end = begin + AT_ONCE < GROUPS ? begin + AT_ONCE : GROUPS;
        for (unsigned i = thread; i < (end - begin) * WORDS; i += threads)
            staged[i] = b[begin * WORDS + i];
        __syncthreads();
        for (unsigned g = begin + threadIdx.y; g < end; g += lane_count()) {
            const uint4 *const weights = &staged[(g - begin) * WORDS];
            const int4 acc = part == FINISH ? sums.read(g) : accumulate(&in[threadIdx.x], weights, g);
            if (part == ACCUMULATE)
                sums.write(g, acc);
            else
                put<WIDTH>(&out[threadIdx.x], g, finish(acc, g));
        }
        __syncthreads();
    }
}

#endif
