/* Tensor cores: 16 rows times COLUMNS columns of a matrix product of codes, computed by a warp.
 *
 *     sums[r][n] += sum_k a[r][k] * b[k][n]        k < STEP; int32, modulo 2^32
 *
 * a is of A, uint8 or int8, less LESS of `Multiplicand`; b is int8.  Both lie in shared memory in chunks of 16 products: the 16 bytes
 * of row r, or of column n, and chunk c at [c * pitch + r] in units of 16 bytes, where pitch is that of `chunk_pitch`.
 * No instruction saturates: without .satfinite a sum beyond int32 wraps.
 *
 * The instruction is that of the architecture for which the code is compiled:
 *
 *     sm_80 and later   mma.m16n8k32    a uint8 or int8
 *     sm_75             mma.m8n8k16     the same
 *     sm_72             wmma.m16n16k16  both of one type: 128 is subtracted of uint8 codes
 *
 * The sums of an mma lie in registers as the PTX ISA says ("Matrix Fragments"); those of a wmma, where the GPU likes.
 */
#ifndef MMA_CUH
#define MMA_CUH

#include "device.cuh"

#if __CUDA_ARCH__ < 720
#error "cuda:tensor needs int8 tensor cores: sm_72 or later"
#endif

enum : unsigned {
    CHUNK = 16, /* products */
    CHUNKS = 4, /* of a step: one for each of the four threads that share a row of a fragment */
    STEP = CHUNKS * CHUNK,
    WARP_ROWS = 16,
    SCRATCH = 16 * 16, /* sums */
};

/* Between two chunks of that many rows: the threads of a quarter of a warp read different memory banks. */
__host__ __device__ constexpr unsigned chunk_pitch(unsigned rows)
{
    return rows + 2;
}

/* The instructions; cuda_on_cpu.h has them for a processor.  Registers are those of the calling thread. */
#ifdef __CUDACC_RTC__
#if __CUDA_ARCH__ >= 750
template <typename A>
__device__ inline void mma_16_8_32(int32_t (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                   uint32_t b1);
template <typename A> __device__ inline void mma_8_8_16(int32_t &sum0, int32_t &sum1, uint32_t a, uint32_t b);

#define DEFINE_MMA(A, TYPE)                                                                                    \
    template <>                                                                                                \
    __device__ inline void mma_16_8_32<A>(int32_t(&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, \
                                          uint32_t b0, uint32_t b1)                                            \
    {                                                                                                          \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." TYPE                                             \
                     ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                     : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])                              \
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                  \
    }                                                                                                          \
    template <> __device__ inline void mma_8_8_16<A>(int32_t & sum0, int32_t & sum1, uint32_t a, uint32_t b)   \
    {                                                                                                          \
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." TYPE ".s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"    \
                     : "+r"(sum0), "+r"(sum1)                                                                  \
                     : "r"(a), "r"(b));                                                                        \
    }
DEFINE_MMA(uint8_t, "u8")
DEFINE_MMA(int8_t, "s8")
#else
__device__ inline void wmma_load_a(uint32_t (&a)[2], const uint4 *rows)
{
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.s8 {%0, %1}, [%2], %3;"
                 : "=r"(a[0]), "=r"(a[1])
                 : "l"(rows), "r"(CHUNK)
                 : "memory");
}

__device__ inline void wmma_load_b(uint32_t (&b)[2], const uint4 *columns)
{
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.s8 {%0, %1}, [%2], %3;"
                 : "=r"(b[0]), "=r"(b[1])
                 : "l"(columns), "r"(CHUNK)
                 : "memory");
}

__device__ inline void wmma_multiply(int32_t (&s)[8], const uint32_t (&a)[2], const uint32_t (&b)[2])
{
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void wmma_store(int32_t *sums, const int32_t (&s)[8], unsigned pitch)
{
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.s32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
                 :
                 : "l"(sums), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]), "r"(s[4]), "r"(s[5]), "r"(s[6]), "r"(s[7]),
                   "r"(pitch)
                 : "memory");
}
#endif
#endif

#if __CUDA_ARCH__ >= 750

/* The factor that the instruction multiplies for a code. */
template <typename A> struct Multiplicand {
    using Type = A;
    enum : int { LESS = 0 };
};

/* Thread 4 * g + t of the warp has rows g and g + 8 and columns g of the factors, and of these the 16 products of chunk t:
 * the instruction takes words of four products in any order that is that of both factors. */
template <typename A, unsigned COLUMNS> struct WarpSums {
    int32_t sums[COLUMNS / 8][4];

    __device__ void clear()
    {
        for (unsigned n = 0; n < COLUMNS / 8; ++n)
            for (unsigned i = 0; i < 4; ++i)
                sums[n][i] = 0;
    }

    __device__ void add(const uint4 *a, unsigned a_pitch, const uint4 *b, unsigned b_pitch)
    {
        const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const uint4 low = a[t * a_pitch + g], high = a[t * a_pitch + g + 8];
        for (unsigned n = 0; n < COLUMNS / 8; ++n) {
            const uint4 column = b[t * b_pitch + 8 * n + g];
#if __CUDA_ARCH__ >= 800
            mma_16_8_32<A>(sums[n], low.x, high.x, low.y, high.y, column.x, column.y);
            mma_16_8_32<A>(sums[n], low.z, high.z, low.w, high.w, column.z, column.w);
#else
            mma_8_8_16<A>(sums[n][0], sums[n][1], low.x, column.x);
            mma_8_8_16<A>(sums[n][0], sums[n][1], low.y, column.y);
            mma_8_8_16<A>(sums[n][0], sums[n][1], low.z, column.z);
            mma_8_8_16<A>(sums[n][0], sums[n][1], low.w, column.w);
            mma_8_8_16<A>(sums[n][2], sums[n][3], high.x, column.x);
            mma_8_8_16<A>(sums[n][2], sums[n][3], high.y, column.y);
            mma_8_8_16<A>(sums[n][2], sums[n][3], high.z, column.z);
            mma_8_8_16<A>(sums[n][2], sums[n][3], high.w, column.w);
#endif
        }
    }

    /* action(r, n, sum) for every sum of the warp, by some thread of it. */
    template <typename Action> __device__ void each(int32_t *, const Action &action) const
    {
        const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        for (unsigned n = 0; n < COLUMNS / 8; ++n)
            for (unsigned i = 0; i < 4; ++i)
                action(g + i / 2 * 8, 8 * n + 2 * t + i % 2, sums[n][i]);
    }
};

#else

template <typename A> struct Multiplicand {
    using Type = int8_t;
    enum : int { LESS = 0 };
};

template <> struct Multiplicand<uint8_t> {
    using Type = int8_t;
    enum : int { LESS = 128 };
};

template <typename A, unsigned COLUMNS> struct WarpSums {
    int32_t sums[COLUMNS / 16][8];

    __device__ void clear()
    {
        for (unsigned n = 0; n < COLUMNS / 16; ++n)
            for (unsigned i = 0; i < 8; ++i)
                sums[n][i] = 0;
    }

    __device__ void add(const uint4 *a, unsigned a_pitch, const uint4 *b, unsigned b_pitch)
    {
        for (unsigned c = 0; c < CHUNKS; ++c) {
            uint32_t rows[2], columns[2];
            wmma_load_a(rows, &a[c * a_pitch]);
            for (unsigned n = 0; n < COLUMNS / 16; ++n) {
                wmma_load_b(columns, &b[c * b_pitch + 16 * n]);
                wmma_multiply(sums[n], rows, columns);
            }
        }
    }

    /* Through `scratch`, shared memory of the warp; all threads of the block have to be here. */
    template <typename Action> __device__ void each(int32_t *scratch, const Action &action) const
    {
        for (unsigned n = 0; n < COLUMNS / 16; ++n) {
            wmma_store(scratch, sums[n], 16);
            __syncthreads();
            for (unsigned i = threadIdx.x % 32; i < SCRATCH; i += 32)
                action(i / 16, 16 * n + i % 16, scratch[i]);
            __syncthreads();
        }
    }
};

#endif

#endif
