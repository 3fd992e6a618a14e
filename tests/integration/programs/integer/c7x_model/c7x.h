/* A model of what dot4.h uses of TI's c7x.h, for a C++14 compiler on a little endian machine: vectors of 512 bits.
 *
 * Written from the documentation (SPRUIG8: TI vector types, their operators and reinterpretation; the declarations of
 * __vdotp4subw_vvv and __dotp4_ext), as strict as that allows: a pointer to a vector must be aligned like one (UBSan
 * sees to it), no lane takes anything from another, sums wrap.
 */
#ifndef C7X_MODEL_H
#define C7X_MODEL_H

#ifndef __cplusplus
#error "the model is written in C++"
#endif
#ifndef __C7000__
#error "the compiler predefines __C7000__, and so must who uses its model"
#endif

#include <stdint.h>
#include <string.h>

/* Element n is at the nth place in memory.  Vectors may alias their elements, as on the C7x. */
template <typename T, int N> struct __attribute__((may_alias, aligned(sizeof(T) * N))) c7x_vector {
    T element[N];

    c7x_vector() = default;

    explicit c7x_vector(T scalar)
    {
        for (T &one : element)
            one = scalar;
    }

    c7x_vector &operator+=(const c7x_vector &other)
    {
        for (int n = 0; n < N; ++n)
            element[n] = (T)((uint32_t)element[n] + (uint32_t)other.element[n]);
        return *this;
    }
};

using char64 = c7x_vector<int8_t, 64>;
using uchar64 = c7x_vector<uint8_t, 64>;
using int16 = c7x_vector<int32_t, 16>;

/* The same bits as another type. */
inline uchar64 __as_uchar64(const int16 &vector)
{
    uchar64 same;
    static_assert(sizeof same == sizeof vector, "vectors of one register");
    memcpy(&same, &vector, sizeof same);
    return same;
}

inline char64 __as_char64(const int16 &vector)
{
    char64 same;
    static_assert(sizeof same == sizeof vector, "vectors of one register");
    memcpy(&same, &vector, sizeof same);
    return same;
}

/* VDOTP4SUBW: lane n is the sum of four products of signed and unsigned bytes, 4 n to 4 n + 3 of either. */
inline int16 __vdotp4subw_vvv(const char64 &a, const uchar64 &b)
{
    int16 sums(0);
    for (int byte = 0; byte < 64; ++byte)
        sums.element[byte / 4] += a.element[byte] * b.element[byte];
    return sums;
}

#endif
