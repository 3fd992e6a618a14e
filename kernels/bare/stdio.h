/* The part of stdio.h that the board program uses, over semihosting: there is no C library on the board.
 *
 * Formats: %s %c %d %u %x %g and %%, with the flags # and 0, a width, a precision of %s, and the lengths z, l and ll.
 */
#ifndef STDIO_H
#define STDIO_H

#include <stdarg.h>
#include <stddef.h>

#define EOF (-1)
#define BUFSIZ 512

enum { SEEK_SET = 0 };
enum { _IOFBF = 0 };

/* A file of the host.  What is written is kept until the buffer is full; what is read is not kept. */
typedef struct file FILE;

extern FILE *const stdout, *const stderr;

/* `mode` is "rb", "wb" or "w". */
FILE *fopen(const char *path, const char *mode);
int fclose(FILE *file);
int fflush(FILE *file);
size_t fread(void *data, size_t size, size_t count, FILE *file);
size_t fwrite(const void *data, size_t size, size_t count, FILE *file);
long ftell(FILE *file);
int fseek(FILE *file, long offset, int origin);
int setvbuf(FILE *file, char *buffer, int mode, size_t size);
int fputs(const char *text, FILE *file);
int fputc(int character, FILE *file);
int putchar(int character);
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fprintf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
int vfprintf(FILE *file, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int snprintf(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
