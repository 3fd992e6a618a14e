/* The part of stdlib.h that the board program uses. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

enum { EXIT_FAILURE = 1 };

/* Zeroed memory out of the board's data memory, which is never given back: all of it is taken before the first
 * execution.  NULL where there is no more. */
void *calloc(size_t count, size_t size);
void free(void *memory);

/* Decimal numbers; errno is ERANGE for one that is too long. */
long long strtoll(const char *text, char **end, int base);

_Noreturn void exit(int status);

#endif
