#include "npy.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum { PREAMBLE_SIZE = 10, HEADER_SIZE = 118 }; /* together 128, a multiple of 64 as numpy pads them */

static const unsigned char MAGIC[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
static const char SHAPE[] = "'shape': (";

/* Read a whole number and the text behind it; return the place after both, NULL if they are not there. */
static const char *number_before(const char *text, const char *behind, size_t *number)
{
    char *end;
    *number = text ? (size_t)strtoll(text, &end, 10) : 0;
    return text && end != text && strncmp(end, behind, strlen(behind)) == 0 ? end + strlen(behind) : NULL;
}

FILE *npy_open_rows(const char *path, const char *descr, size_t width, size_t *rows)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_errno(EXIT_IO, "cannot open", path);
    unsigned char preamble[PREAMBLE_SIZE];
    npy_read(file, path, preamble, sizeof preamble);
    const size_t length = preamble[8] | (size_t)preamble[9] << 8;
    char header[4096], type[32];
    if (memcmp(preamble, MAGIC, sizeof MAGIC) != 0 || length >= sizeof header)
        fail(EXIT_USAGE, "%s: not a .npy file of version 1.0", path);
    npy_read(file, path, header, length);
    header[length] = '\0';
    snprintf(type, sizeof type, "'descr': '%s'", descr);
    size_t columns;
    const char *shape = strstr(header, SHAPE);
    if (!strstr(header, type) || !strstr(header, "'fortran_order': False") || !shape ||
        !number_before(number_before(shape + strlen(SHAPE), ", ", rows), ")", &columns) || columns != width)
        fail(EXIT_USAGE, "%s: expected %s of shape (vectors, %zu), found %.*s}", path, descr, width,
             (int)strcspn(header, "}"), header);
    return file;
}

static void write_header(FILE *file, const char *path, const char *descr, size_t rows, size_t width)
{
    unsigned char preamble[PREAMBLE_SIZE] = {0};
    memcpy(preamble, MAGIC, sizeof MAGIC);
    preamble[8] = HEADER_SIZE;
    char header[HEADER_SIZE + 1];
    const int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu, %zu), }",
                              descr, rows, width);
    memset(header + used, ' ', (size_t)(HEADER_SIZE - used));
    header[HEADER_SIZE - 1] = '\n';
    npy_write(file, path, preamble, sizeof preamble);
    npy_write(file, path, header, HEADER_SIZE);
}

FILE *npy_create(const char *path, const char *descr, size_t rows, size_t width)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_errno(EXIT_IO, "cannot create", path);
    write_header(file, path, descr, rows, width);
    return file;
}

void npy_set_rows(FILE *file, const char *path, const char *descr, size_t rows, size_t width)
{
    if (fseek(file, 0, SEEK_SET) != 0)
        fail_errno(EXIT_IO, "cannot write", path);
    write_header(file, path, descr, rows, width);
}

void npy_read(FILE *file, const char *path, void *data, size_t bytes)
{
    if (fread(data, 1, bytes, file) != bytes)
        fail(EXIT_IO, "%s: the file ends too early", path);
}

void npy_write(FILE *file, const char *path, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        fail_errno(EXIT_IO, "cannot write", path);
}

void npy_close_written(FILE *file, const char *path)
{
    if (fflush(file) != 0 || fclose(file) != 0)
        fail_errno(EXIT_IO, "cannot write", path);
}
