/* All layers of a launch in one kernel: a block of threads carries its vectors through them in shared memory.
 *
 * threadIdx.x is a vector of the block, threadIdx.y a lane: lanes share out the words of a vector among them.
 * An activation lies in a tile of words, those of a vector STRIDE apart: word w of vector v at [w * STRIDE + v], so that
 * threads of neighbouring vectors never meet in a memory bank.  A word holds one value of 16 or 32 bits, half of one
 * of 64, the lower half first; or four codes, the first in its lowest byte: those of four neighbouring channels at one of
 * POSITIONS.  Code n = c * POSITIONS + p, of
 * channel c at position p, is byte c % 4 of word c / 4 * POSITIONS + p.  A flat tensor has one position.
 *
 * A QGemm computes groups of four outputs, by dp4a: four products of a word of codes and a word of weights, and their
 * sum.  b is packed: the weights of group g and word w, one word for each of its outputs, stand at [g * WORDS + w],
 * and are 0 behind the last input and behind the last output.
 *
 *     offset[n] = bias[n] - za * sum_k b[k][n] + DEPTH * za * zb[n]             computed by the host
 *     acc[n]    = offset[n] + sum_k a[k] * b[k][n] - zb[n] * sum_k a[k]
 *
 * A QLinearConv has the same sums of the values of a window.  A word of a position outside of the image is four times za,
 * which contributes nothing: (za - za) * (b - zb).  b is int8, and packed: the weights of a group of four channels g,
 * place k of the window and word w of the COUNT that the group reads stand at [(g * SIZE + k) * COUNT + w], one word for
 * each channel of the group, and are 0 for a channel that is not in the group's sums.
 *
 * The host refuses a network whose acc can leave int32; the parts are added modulo 2^32, so that they may.
 * Every function that writes shared memory ends with a barrier: what it wrote can be read; and every function that
 * copies a tile to memory: it can be written again.
 */
#ifndef FUSED_CUH
#define FUSED_CUH

#include "dot4.cuh"
#include "operators.cuh"

enum : unsigned {
    /* VECTORS, the most that a block carries, is defined by the generated code. */
    STRIDE = VECTORS > 1 ? VECTORS + 1 : 1,
    SHORT = 8,    /* products of words in an iteration of a short loop */
    STAGED = 512, /* of packed weights, in units of 16 bytes; they stand before the tiles */
};

template <typename T> __host__ __device__ constexpr unsigned words(unsigned width, unsigned positions = 1)
{
    return sizeof(T) == 1 ? (width / positions + 3) / 4 * positions : sizeof(T) == 8 ? 2 * width : width;
}

__device__ inline const uint32_t *shared_words()
{
    return (const uint32_t *)shared_memory;
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

/* Code i of a word. */
template <typename T> __device__ inline T code(uint32_t word, unsigned i)
{
    return (T)(word >> (8 * i));
}

template <typename T> __device__ inline T value_of(uint32_t bits)
{
    return (T)bits;
}

template <> __device__ inline float value_of<float>(uint32_t bits)
{
    return __uint_as_float(bits);
}

/* The values of one vector: x[n] is the nth. */
template <typename T, unsigned POSITIONS = 1> struct Values {
    const uint32_t *tile;
    __device__ T operator[](unsigned n) const
    {
        if constexpr (sizeof(T) == 8)
            return (T)((uint64_t)tile[(2 * n + 1) * STRIDE] << 32 | tile[2 * n * STRIDE]);
        if (sizeof(T) != 1)
            return value_of<T>(tile[n * STRIDE]);
        const unsigned channel = n / POSITIONS;
        return code<T>(tile[(channel / 4 * POSITIONS + n % POSITIONS) * STRIDE], channel % 4);
    }
};

/* A row in global memory; zeros behind the last vector. */
template <typename T, unsigned WIDTH> struct Row {
    const T *rows;
    Carried vectors;
    unsigned v;
    __device__ T operator[](unsigned n) const
    {
        return v < vectors.count ? rows[(vectors.first + v) * WIDTH + n] : (T)0;
    }
};

__device__ inline uint32_t bits(float value)
{
    return __float_as_uint(value);
}

template <typename T> __device__ inline uint32_t bits(T value)
{
    return (uint32_t)value;
}

/* Word w of WIDTH values, of which value(n) is the nth; codes are 0 behind the last channel. */
template <typename T, unsigned WIDTH, unsigned POSITIONS, typename Value>
__device__ inline uint32_t word(unsigned w, const Value &value)
{
    if constexpr (sizeof(T) == 8)
        return (uint32_t)((uint64_t)value(w / 2) >> (w % 2 * 32));
    else if constexpr (sizeof(T) != 1)
        return bits(value(w));
    uint32_t packed = 0;
    if constexpr (sizeof(T) == 1)
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned channel = w / POSITIONS * 4 + i;
            if (channel < WIDTH / POSITIONS)
                packed |= (uint32_t)(uint8_t)value(channel * POSITIONS + w % POSITIONS) << (8 * i);
        }
    return packed;
}

/* The word of four codes. */
template <typename Code> __device__ inline uint32_t four_codes(const Code &code)
{
    uint32_t packed = 0;
    for (unsigned i = 0; i < 4; ++i)
        packed |= (uint32_t)(uint8_t)code(i) << (8 * i);
    return packed;
}

/* WORDS of every vector: word(v, w) is that at w of vector v. */
template <unsigned WORDS, typename Word> __device__ inline void fill_words(uint32_t *tile, const Word &word)
{
    for (unsigned w = threadIdx.y; w < WORDS; w += lane_count())
        tile[w * STRIDE + threadIdx.x] = word(threadIdx.x, w);
    __syncthreads();
}

/* Every vector's words, made of its values: value(v, n) is the nth of vector v. */
template <typename T, unsigned WIDTH, unsigned POSITIONS, typename Value>
__device__ inline void fill(uint32_t *tile, const Value &value)
{
    fill_words<words<T>(WIDTH, POSITIONS)>(tile, [&](unsigned v, unsigned w) {
        return word<T, WIDTH, POSITIONS>(w, [&](unsigned n) { return value(v, n); });
    });
}

/* Returns whether rows of codes in global memory, which begin at a word, are accessed four codes at a time. */
template <typename T, unsigned WIDTH, unsigned POSITIONS> __host__ __device__ constexpr bool in_words()
{
    return sizeof(T) == 1 && WIDTH % 4 == 0 && (POSITIONS == 1 || POSITIONS % 4 == 0);
}

/* Transposes four words of four codes: word i has code i of each.  Exchanges words of positions and of channels. */
__device__ inline uint4 transposed(uint4 a)
{
    const uint32_t xy_01 = __byte_perm(a.x, a.y, 0x5140), xy_23 = __byte_perm(a.x, a.y, 0x7362);
    const uint32_t zw_01 = __byte_perm(a.z, a.w, 0x5140), zw_23 = __byte_perm(a.z, a.w, 0x7362);
    return make_uint4(__byte_perm(xy_01, zw_01, 0x5410), __byte_perm(xy_01, zw_01, 0x7632),
                      __byte_perm(xy_23, zw_23, 0x5410), __byte_perm(xy_23, zw_23, 0x7632));
}

/* From global memory, where the vectors stand PITCH values apart; zeros behind the last vector.  Of several sources side
 * by side, PITCH values in all, one may begin within a word. */
template <typename T, unsigned WIDTH, unsigned POSITIONS, unsigned PITCH = WIDTH>
__device__ inline void load(Carried vectors, const T *rows, uint32_t *tile)
{
    const bool inside = threadIdx.x < vectors.count;
    const T *const row = &rows[(vectors.first + threadIdx.x) * PITCH];
    const auto of = [&](unsigned w) { return inside ? ((const uint32_t *)row)[w] : 0; };
    if constexpr (PITCH != WIDTH || !in_words<T, WIDTH, POSITIONS>()) {
        fill<T, WIDTH, POSITIONS>(tile, [&](unsigned, unsigned n) { return inside ? row[n] : (T)0; });
    } else if constexpr (POSITIONS == 1) {
        fill_words<WIDTH / 4>(tile, [&](unsigned, unsigned w) { return of(w); });
    } else {
        constexpr unsigned CHANNELS = WIDTH / POSITIONS, QUADS = POSITIONS / 4;
        for (unsigned i = threadIdx.y; i < (CHANNELS + 3) / 4 * QUADS; i += lane_count()) {
            const unsigned c = i / QUADS * 4;
            const auto channel = [&](unsigned j) { return c + j < CHANNELS ? of((c + j) * QUADS + i % QUADS) : 0; };
            const uint4 codes = transposed(make_uint4(channel(0), channel(1), channel(2), channel(3)));
            uint32_t *const to = &tile[4 * i * STRIDE + threadIdx.x];
            to[0] = codes.x;
            to[STRIDE] = codes.y;
            to[2 * STRIDE] = codes.z;
            to[3 * STRIDE] = codes.w;
        }
        __syncthreads();
    }
}

/* Into global memory, (vectors, WIDTH), neighbouring threads side by side; nowhere if nobody asks for it. */
template <typename T, unsigned WIDTH, unsigned POSITIONS>
__device__ inline void store(Carried vectors, const uint32_t *tile, void *memory)
{
    if (memory == nullptr)
        return;
    T *const rows = &((T *)memory)[vectors.first * WIDTH];
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if constexpr (!in_words<T, WIDTH, POSITIONS>()) {
        for (unsigned i = thread; i < vectors.count * WIDTH; i += threads)
            rows[i] = Values<T, POSITIONS>{&tile[i / WIDTH]}[i % WIDTH];
    } else if constexpr (POSITIONS == 1) {
        for (unsigned i = thread; i < vectors.count * (WIDTH / 4); i += threads)
            ((uint32_t *)rows)[i] = tile[i % (WIDTH / 4) * STRIDE + i / (WIDTH / 4)];
    } else {
        constexpr unsigned CHANNELS = WIDTH / POSITIONS, QUADS = POSITIONS / 4, ALL = (CHANNELS + 3) / 4 * QUADS;
        for (unsigned i = thread; i < vectors.count * ALL; i += threads) {
            const unsigned v = i / ALL, c = i % ALL / QUADS * 4;
            const uint32_t *const from = &tile[4 * (i % ALL) * STRIDE + v];
            const uint4 codes = transposed(make_uint4(from[0], from[STRIDE], from[2 * STRIDE], from[3 * STRIDE]));
            const uint32_t each[] = {codes.x, codes.y, codes.z, codes.w};
            for (unsigned j = 0; j < 4; ++j)
                if (c + j < CHANNELS)
                    ((uint32_t *)rows)[v * (WIDTH / 4) + (c + j) * QUADS + i % QUADS] = each[j];
        }
    }
    __syncthreads();
}

__device__ inline int4 as_signed(uint4 acc)
{
    return make_int4((int32_t)acc.x, (int32_t)acc.y, (int32_t)acc.z, (int32_t)acc.w);
}

/* acc + the products of a word of codes and the weights of four channels */
template <typename A, typename B> __device__ inline uint4 multiply_four(uint32_t codes, uint4 weights, uint4 acc)
{
    return make_uint4(dot4<A, B>(codes, weights.x, acc.x), dot4<A, B>(codes, weights.y, acc.y),
                      dot4<A, B>(codes, weights.z, acc.z), dot4<A, B>(codes, weights.w, acc.w));
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
        acc = multiply_four<A, B>(codes, b[w], acc);
        if (zb != nullptr)
            sum_a = dot4<A, uint8_t>(codes, ones<DEPTH>(w), sum_a);
    }
    if (zb != nullptr)
        acc = make_uint4(acc.x - zb->x * sum_a, acc.y - zb->y * sum_a, acc.z - zb->z * sum_a, acc.w - zb->w * sum_a);
    return as_signed(acc);
}

/* Writes the result of group g to the tile: one word of codes, or up to four values. */
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

/* Sums in global memory, (vectors, CHANNELS, POSITIONS). */
template <unsigned CHANNELS, unsigned POSITIONS = 1> struct Sums {
    Carried vectors;
    int32_t *rows;
    __device__ bool has(unsigned channel) const
    {
        return threadIdx.x < vectors.count && channel < CHANNELS;
    }
    __device__ int32_t &at(unsigned channel, unsigned p) const
    {
        return rows[((vectors.first + threadIdx.x) * CHANNELS + channel) * POSITIONS + p];
    }
    __device__ int4 read(unsigned g, unsigned p = 0) const
    {
        const auto sum = [&](unsigned i) { return has(4 * g + i) ? at(4 * g + i, p) : 0; };
        return make_int4(sum(0), sum(1), sum(2), sum(3));
    }
    __device__ void write(unsigned g, int4 acc, unsigned p = 0) const
    {
        const int32_t each[] = {acc.x, acc.y, acc.z, acc.w};
        for (unsigned i = 0; i < 4; ++i)
            if (has(4 * g + i))
                at(4 * g + i, p) = each[i];
    }
};

/* acc of GROUPS of four channels, from g on, at POSITIONS, `p` and every positions_apart after it. */
template <unsigned GROUPS, unsigned POSITIONS> struct Accumulators {
    int4 of[GROUPS][POSITIONS];
};

__host__ __device__ constexpr unsigned positions_apart(unsigned all, unsigned together)
{
    return (all + together - 1) / together;
}

/* acc of QLinearConv; a is the words of a vector, WORDS at each position of the image, `ones` has a 1 for each weight
 * and is nullptr where zb is 0.  OUTPUTS channels of a group of the convolution read INPUTS channels.  EDGE is whether
 * windows leave the image. */
template <typename A, typename W, bool EDGE, unsigned WORDS, unsigned COUNT, unsigned INPUTS, unsigned OUTPUTS,
          unsigned GROUPS, unsigned POSITIONS>
__device__ inline Accumulators<GROUPS, POSITIONS> convolve(const uint32_t *a, const uint4 *b, const uint4 *ones,
                                                           int32_t zb, const uint32_t *offset, int32_t za, unsigned g,
                                                           unsigned p)
{
    constexpr unsigned APART = positions_apart(W::POSITIONS, POSITIONS), DEPTH = W::SIZE * COUNT;
    constexpr bool EVEN = POSITIONS * APART == W::POSITIONS;     /* all threads have equally many positions */
    constexpr bool BELOW = EVEN && APART % W::OUTPUT_WIDTH == 0; /* those of a thread are in one column */
    const unsigned group_begin = 4 * g / OUTPUTS * INPUTS / 4;
    const unsigned first = group_begin + COUNT < WORDS ? group_begin : WORDS - COUNT;
    const uint32_t outside = (uint8_t)za * 0x01010101u;
    const uint32_t *const tile = &shared_words()[(unsigned)(a - shared_words()) + first * W::IMAGE * STRIDE];
    uint4 acc[GROUPS][POSITIONS], sum_a[GROUPS][POSITIONS];
    for (unsigned i = 0; i < GROUPS; ++i)
        for (unsigned r = 0; r < POSITIONS; ++r) {
            acc[i][r] = four<uint4>(offset, g + i);
            sum_a[i][r] = make_uint4(0, 0, 0, 0);
        }
    b += g * DEPTH;
    ones += ones != nullptr ? g * DEPTH : 0;
    UNROLLED(1)
    for (unsigned y = 0; y < W::KERNEL_HEIGHT; ++y) {
        UNROLLED(COUNT * GROUPS * POSITIONS <= SHORT ? W::KERNEL_WIDTH : 1)
        for (unsigned x = 0; x < W::KERNEL_WIDTH; ++x) {
            bool inside[POSITIONS];
            const uint32_t *from[POSITIONS];
            for (unsigned r = 0; r < POSITIONS; ++r) {
                const unsigned at = p + r * APART, position = EVEN || at < W::POSITIONS ? at : W::POSITIONS - 1;
                const unsigned row = BELOW ? W::row(p, y) + r * (APART / W::OUTPUT_WIDTH * W::ROW_STRIDE) : W::row(position, y);
                const unsigned column = W::column(BELOW ? p : position, x);
                inside[r] = !EDGE || (row < W::HEIGHT && column < W::WIDTH);
                from[r] = &tile[(inside[r] ? row * W::WIDTH + column : 0) * STRIDE];
            }
            for (unsigned w = 0; w < COUNT; ++w) {
                uint32_t codes[POSITIONS];
                for (unsigned r = 0; r < POSITIONS; ++r) {
                    const uint32_t word = from[r][w * W::IMAGE * STRIDE];
                    codes[r] = inside[r] ? word : outside;
                }
                for (unsigned i = 0; i < GROUPS; ++i) {
                    const uint4 weights = b[i * DEPTH + w];
                    for (unsigned r = 0; r < POSITIONS; ++r) {
                        acc[i][r] = multiply_four<A, int8_t>(codes[r], weights, acc[i][r]);
                        if (ones != nullptr)
                            sum_a[i][r] = multiply_four<A, int8_t>(codes[r], ones[i * DEPTH + w], sum_a[i][r]);
                    }
                }
            }
            b += COUNT;
            ones += ones != nullptr ? COUNT : 0;
        }
    }
    Accumulators<GROUPS, POSITIONS> made;
    for (unsigned i = 0; i < GROUPS; ++i)
        for (unsigned r = 0; r < POSITIONS; ++r) {
            const uint4 all = acc[i][r], sum = sum_a[i][r];
            const uint32_t z = (uint32_t)zb;
            made.of[i][r] = as_signed(ones == nullptr ? all : make_uint4(all.x - z * sum.x, all.y - z * sum.y,
                                                                         all.z - z * sum.z, all.w - z * sum.w));
        }
    return made;
}

/* acc of QLinearGlobalAveragePool, of group g: the sums of a - za over the image. */
template <typename A, unsigned IMAGE>
__device__ inline Accumulators<1, 1> sum_image(const uint32_t *a, int32_t za, unsigned g)
{
    const uint32_t constant = 0u - (uint32_t)za * IMAGE;
    uint4 acc = make_uint4(constant, constant, constant, constant);
    for (unsigned p = 0; p < IMAGE; ++p)
        acc = multiply_four<A, uint8_t>(a[(g * IMAGE + p) * STRIDE], make_uint4(1, 1 << 8, 1 << 16, 1 << 24), acc);
    return {{{as_signed(acc)}}};
}

/* The groups of channels at all positions.  For the proof `part` makes it stop at the sums, or begin with given ones. */
template <unsigned CHANNELS, unsigned POSITIONS, unsigned GROUPS_TOGETHER, unsigned POSITIONS_TOGETHER,
          typename Accumulate, typename Finish>
__device__ inline void contract(const uint32_t *in, uint32_t *out, part part, const Sums<CHANNELS, POSITIONS> &sums,
                                const Accumulate &accumulate, const Finish &finish)
{
    constexpr unsigned APART = positions_apart(POSITIONS, POSITIONS_TOGETHER);
    constexpr unsigned ALL = (CHANNELS + 3) / 4 / GROUPS_TOGETHER * APART;
    for (unsigned i = threadIdx.y; i < ALL; i += lane_count()) {
        const unsigned g = i / APART * GROUPS_TOGETHER, p = i % APART;
        Accumulators<GROUPS_TOGETHER, POSITIONS_TOGETHER> acc;
        if (part != FINISH)
            acc = accumulate(&in[threadIdx.x], g, p);
        UNROLLED(GROUPS_TOGETHER)
        for (unsigned j = 0; j < GROUPS_TOGETHER; ++j) {
            UNROLLED(POSITIONS_TOGETHER)
            for (unsigned r = 0; r < POSITIONS_TOGETHER; ++r) {
                const unsigned at = p + r * APART;
                if (at >= POSITIONS)
                    continue;
                const int4 sum = part == FINISH ? sums.read(g + j, at) : acc.of[j][r];
                if (part == ACCUMULATE)
                    sums.write(g + j, sum, at);
                else
                    out[((g + j) * POSITIONS + at) * STRIDE + threadIdx.x] = finish(sum, g + j);
            }
        }
    }
    __syncthreads();
}

/* The groups of a QGemm, with as many of their weights at a time as `staged` holds.  For the proof `part` makes it stop
 * at the sums, or begin with sums that are given. */
template <unsigned WORDS, unsigned WIDTH, typename Accumulate, typename Finish>
__device__ inline void qgemm(const uint4 *b, const uint32_t *in, uint32_t *out, part part, const Sums<WIDTH> &sums,
                             const Accumulate &accumulate, const Finish &finish)
{
    uint4 *const staged = shared_memory;
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
