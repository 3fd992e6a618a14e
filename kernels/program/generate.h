/* Vectors that the program makes itself, so that millions of them need not be sent: each byte is a function of its
 * place alone, and the host computes the same ones (harness/reference/generated.py).
 */
#ifndef GENERATE_H
#define GENERATE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PAIR_VECTORS = 65536,  /* every pair of two bytes */
    PAIR_ARRANGEMENTS = 2, /* enough for 257 * 257 columns */
};

/* Byte b of all vectors, one behind the other, is byte b % 8, least significant first, of random number b / 8 of
 * `seed` (random.h). */
void generate_random(unsigned char *rows, size_t first_byte, size_t bytes, uint64_t seed);

/* An orthogonal array of strength 2 over GF(256), of the polynomial x^8 + x^4 + x^3 + x + 1: vector 256 * i + j has
 * i + j * x in each column, or j where x is 256; there + and * are those of the field.
 *
 * The x of column c is c % 257 in arrangement 0, c / 257 % 257 in arrangement 1.  Two columns of different x have every
 * pair of bytes in one vector each; any two of 66,049 columns have different x in one of the arrangements. */
void generate_pairs(unsigned char *rows, size_t columns, size_t first_row, size_t count, unsigned arrangement);

#endif
