#include "vectors.h"

#include "fail.h"
#include "generate.h"
#include "npy.h"

struct vectors vectors_open(const struct options *options, const char *descr, size_t width, size_t element_size)
{
    struct vectors vectors = {.options = options, .count = options->generated, .row = width * element_size};
    if (options->generated)
        return vectors;
    vectors.file = npy_open_rows(options->vectors, descr, width, &vectors.count);
    vectors.first = ftell(vectors.file);
    return vectors;
}

void vectors_read(struct vectors *vectors, unsigned char *rows, size_t count)
{
    const struct options *options = vectors->options;
    if (vectors->file)
        npy_read(vectors->file, options->vectors, rows, count * vectors->row);
    else if (options->generator == GENERATE_RANDOM)
        generate_random(rows, vectors->next * vectors->row, count * vectors->row, options->generator_seed);
    else
        generate_pairs(rows, vectors->row, vectors->next, count, (unsigned)options->generator_seed);
    vectors->next += count;
}

void vectors_seek(struct vectors *vectors, size_t next)
{
    vectors->next = next;
    if (vectors->file && fseek(vectors->file, vectors->first + (long)(next * vectors->row), SEEK_SET) != 0)
        fail_errno(EXIT_IO, "cannot read again", vectors->options->vectors);
}

void vectors_close(struct vectors *vectors)
{
    if (vectors->file)
        fclose(vectors->file);
}
