/* The functions of string.h that compilers call on their own: the code of a network needs no others. */
#include <stdint.h>
#include <string.h>

/* The loops below must not become calls of the functions that they are. */
#define SELF __attribute__((optimize("no-tree-loop-distribute-patterns")))

SELF void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    if (((uintptr_t)target | (uintptr_t)source) % sizeof(uint32_t) == 0)
        for (; bytes >= sizeof(uint32_t); bytes -= sizeof(uint32_t)) {
            *(uint32_t __attribute__((may_alias)) *)(void *)target = *(const uint32_t __attribute__((may_alias)) *)(const void *)source;
            target += sizeof(uint32_t);
            source += sizeof(uint32_t);
        }
    while (bytes--)
        *target++ = *source++;
    return to;
}

SELF void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *target = to;
    const unsigned char *source = from;
    if ((uintptr_t)target - (uintptr_t)source >= bytes)
        return memcpy(to, from, bytes);
    while (bytes--)
        target[bytes] = source[bytes];
    return to;
}

SELF void *memset(void *to, int value, size_t bytes)
{
    unsigned char *target = to;
    while (bytes--)
        *target++ = (unsigned char)value;
    return to;
}

int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < bytes; ++i)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}
