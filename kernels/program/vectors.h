/* The vectors of a question, from a file or generated (generate.h), row by row and again from the first. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdio.h>

#include "options.h"

struct vectors {
    const struct options *options;
    FILE *file; /* NULL: generated */
    long first; /* where the rows begin in the file */
    size_t count, next;
    size_t row; /* bytes */
};

/* Opens `width` elements of a type a vector; exits with a message if the file has others. */
struct vectors vectors_open(const struct options *options, const char *descr, size_t width, size_t element_size);

/* The next `count` vectors. */
void vectors_read(struct vectors *vectors, unsigned char *rows, size_t count);

/* The next vector is that of this number. */
void vectors_seek(struct vectors *vectors, size_t next);

void vectors_close(struct vectors *vectors);

#endif
