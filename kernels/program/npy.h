/* NumPy's .npy files, version 1.0: reading and writing matrices row by row. */
#ifndef NPY_H
#define NPY_H

#include <stddef.h>
#include <stdio.h>

/* Opens a C-ordered (rows, width) file of NumPy's type `descr` at its first row; exits with a message otherwise. */
FILE *npy_open_rows(const char *path, const char *descr, size_t width, size_t *rows);

/* Creates `path` and writes the header that numpy.save writes for (rows, width); exits with a message otherwise. */
FILE *npy_create(const char *path, const char *descr, size_t rows, size_t width);

/* Writes the header of `npy_create` again, with the number of rows that it turned out to be. */
void npy_set_rows(FILE *file, const char *path, const char *descr, size_t rows, size_t width);

void npy_read(FILE *file, const char *path, void *data, size_t bytes);
void npy_write(FILE *file, const char *path, const void *data, size_t bytes);

/* Flushes to the disk, so that a full one is noticed here. */
void npy_close_written(FILE *file, const char *path);

#endif
