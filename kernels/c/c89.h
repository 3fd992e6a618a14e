/* Replacements for what ISO C90 lacks: types of a known size, checked here, and a few functions.
 *
 * Included in place of stdint.h, stdbool.h and math.h where `standard: c89` is set (harness/targets/c/dialect.py).
 */
#ifndef C89_H
#define C89_H

/* The fixed sources of the board program include network.h, too, and are C99: their types come from the compiler. */
#if defined __STDC_VERSION__ && __STDC_VERSION__ >= 199901L

#include <stdbool.h>
#include <stdint.h>

#else

#include <limits.h>

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#if LONG_MAX > 2147483647L
typedef long int64_t;
typedef unsigned long uint64_t;
#else /* C90 has no larger type: an extension of the compiler */
__extension__ typedef long long int64_t;
__extension__ typedef unsigned long long uint64_t;
#endif

/* An array of a negative size is an error of every compiler. */
#define C89_CHECK(NAME, CONDITION) typedef char c89_check_##NAME[(CONDITION) ? 1 : -1]
C89_CHECK(bytes_have_8_bits, CHAR_BIT == 8);
C89_CHECK(int16, sizeof(int16_t) == 2 && sizeof(uint16_t) == 2);
C89_CHECK(int32, sizeof(int32_t) == 4 && sizeof(uint32_t) == 4);
C89_CHECK(int64, sizeof(int64_t) == 8 && sizeof(uint64_t) == 8);
C89_CHECK(float32, sizeof(float) == 4);
C89_CHECK(negative_numbers, (-1 & 3) == 3 && (-1 >> 1) == -1);

typedef int bool;
enum { false = 0, true = 1 };

#define INT32_MAX 2147483647
#define inline __inline__
#define restrict __restrict__
#define rintf(VALUE) __builtin_rintf(VALUE)
#define sqrtf(VALUE) __builtin_sqrtf(VALUE)
#define INFINITY __builtin_inff()

#endif

#endif
