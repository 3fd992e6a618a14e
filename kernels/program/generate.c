#include "generate.h"

#include "random.h"

enum { POINTS = 257, INFINITY_POINT = 256, FIELD = 256, POLYNOMIAL = 0x11b };

void generate_random(unsigned char *rows, size_t first_byte, size_t bytes, uint64_t seed)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; ++i) {
        const size_t at = first_byte + i;
        if (i == 0 || at % sizeof word == 0)
            word = random_at(seed, at / sizeof word);
        rows[i] = (unsigned char)(word >> at % sizeof word * 8);
    }
}

static unsigned field_product(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (; b; b >>= 1) {
        product ^= b & 1 ? a : 0;
        a = a << 1 ^ (a & FIELD / 2 ? POLYNOMIAL : 0);
    }
    return product;
}

void generate_pairs(unsigned char *rows, size_t columns, size_t first_row, size_t count, unsigned arrangement)
{
    for (size_t c = 0; c < columns; ++c) {
        const unsigned x = (unsigned)((arrangement == 0 ? c : c / POINTS) % POINTS);
        for (size_t r = 0; r < count; ++r) {
            const unsigned i = (unsigned)((first_row + r) / FIELD), j = (unsigned)((first_row + r) % FIELD);
            rows[r * columns + c] = (unsigned char)(x == INFINITY_POINT ? j : i ^ field_product(x, j));
        }
    }
}
