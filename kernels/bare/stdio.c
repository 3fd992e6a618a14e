#include <stdio.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

struct file {
    int handle;
    enum host_mode mode; /* of the console: it is opened when it is first written to */
    size_t position, used;      /* of the file's end of the buffer, and the bytes in it */
    unsigned char buffer[BUFSIZ];
    FILE *closed;               /* the next file that may be used again */
};

static FILE standard_output = {.handle = -1, .mode = HOST_STDOUT};
static FILE standard_error = {.handle = -1, .mode = HOST_STDERR};
static FILE *unused;
FILE *const stdout = &standard_output, *const stderr = &standard_error;

static int failed(void)
{
    errno = host_errno();
    return EOF;
}

FILE *fopen(const char *path, const char *mode)
{
    const int handle = host_open(path, *mode == 'r' ? HOST_READ : HOST_WRITE);
    if (handle < 0) {
        failed();
        return NULL;
    }
    FILE *file = unused;
    if (file)
        unused = file->closed;
    else
        file = calloc(1, sizeof *file);
    if (file)
        *file = (FILE){.handle = handle};
    else
        errno = ENOMEM;
    return file;
}

int fflush(FILE *file)
{
    if (file->handle < 0 && file->used)
        file->handle = host_open(":tt", file->mode);
    const bool kept = file->used == 0 || host_write(file->handle, file->buffer, file->used) == 0;
    file->used = 0;
    return kept ? 0 : failed();
}

int fclose(FILE *file)
{
    const bool kept = fflush(file) == 0;
    const bool closed = host_close(file->handle) == 0;
    file->closed = unused;
    unused = file;
    return kept && closed ? 0 : failed();
}

size_t fread(void *data, size_t size, size_t count, FILE *file)
{
    const size_t bytes = size * count, got = bytes - host_read(file->handle, data, bytes);
    file->position += got;
    return got / size;
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    const size_t bytes = size * count;
    if (bytes > sizeof file->buffer - file->used && fflush(file) != 0)
        return 0;
    file->position += bytes;
    if (bytes > sizeof file->buffer) {
        if (host_write(file->handle, data, bytes) != 0) {
            failed();
            return 0;
        }
        return count;
    }
    memcpy(file->buffer + file->used, data, bytes);
    file->used += bytes;
    return count;
}

long ftell(FILE *file)
{
    return (long)file->position;
}

int fseek(FILE *file, long offset, int origin)
{
    if (origin != SEEK_SET || fflush(file) != 0 || host_seek(file->handle, (size_t)offset) != 0)
        return failed();
    file->position = (size_t)offset;
    return 0;
}

int setvbuf(FILE *file, char *buffer, int mode, size_t size)
{
    (void)file, (void)buffer, (void)mode, (void)size; /* it has its buffer already */
    return 0;
}

int fputc(int character, FILE *file)
{
    const unsigned char byte = (unsigned char)character;
    return fwrite(&byte, 1, 1, file) == 1 ? byte : EOF;
}

int putchar(int character)
{
    return fputc(character, stdout);
}

int fputs(const char *text, FILE *file)
{
    const size_t length = strlen(text);
    return fwrite(text, 1, length, file) == length ? 0 : EOF;
}

/* Destination of formatted text: a file, or an array, which drops what exceeds its size. */
struct sink {
    FILE *file;
    char *text;
    size_t size, length;
    bool failed;
};

static void emit(struct sink *sink, const char *text, size_t length)
{
    for (size_t i = 0; sink->text && i < length; ++i)
        if (sink->length + i + 1 < sink->size)
            sink->text[sink->length + i] = text[i];
    sink->failed |= sink->file && fwrite(text, 1, length, sink->file) != length;
    sink->length += length;
}

struct conversion {
    bool alternative;
    char fill;
    size_t width, precision;
    unsigned longs;
};

static void emit_padded(struct sink *sink, const struct conversion *conversion, const char *text, size_t length)
{
    for (size_t i = length; i < conversion->width; ++i)
        emit(sink, &conversion->fill, 1);
    emit(sink, text, length);
}

static void emit_number(struct sink *sink, const struct conversion *conversion, uint64_t value, unsigned base,
                        bool negative)
{
    char digits[24];
    size_t at = sizeof digits;
    const uint64_t given = value;
    do
        digits[--at] = "0123456789abcdef"[value % base];
    while (value /= base);
    if (conversion->alternative && given) {
        digits[--at] = 'x';
        digits[--at] = '0';
    }
    if (negative)
        digits[--at] = '-';
    emit_padded(sink, conversion, digits + at, sizeof digits - at);
}

/* A number of at least 0 and below 1e15, with six decimals, which is one of the forms of %g in JSON. */
static void emit_decimal(struct sink *sink, double value)
{
    const struct conversion whole = {.fill = ' '}, decimals = {.fill = '0', .width = 6};
    const uint64_t millionths = (uint64_t)(value * 1e6 + 0.5);
    emit_number(sink, &whole, millionths / 1000000, 10, false);
    emit(sink, ".", 1);
    emit_number(sink, &decimals, millionths % 1000000, 10, false);
}

static uint64_t unsigned_of(const struct conversion *conversion, va_list *arguments)
{
    return conversion->longs > 1 ? va_arg(*arguments, unsigned long long) : va_arg(*arguments, unsigned long);
}

static void emit_signed(struct sink *sink, const struct conversion *conversion, va_list *arguments)
{
    const long long value = conversion->longs > 1 ? va_arg(*arguments, long long) : va_arg(*arguments, long);
    emit_number(sink, conversion, value < 0 ? -(uint64_t)value : (uint64_t)value, 10, value < 0);
}

static void emit_text(struct sink *sink, const struct conversion *conversion, const char *text)
{
    size_t length = 0;
    while (length < conversion->precision && text[length])
        ++length;
    emit_padded(sink, conversion, text, length);
}

static size_t number_at(const char **format, va_list *arguments)
{
    size_t number = 0;
    if (**format == '*') {
        ++*format;
        return (size_t)va_arg(*arguments, int);
    }
    for (; **format >= '0' && **format <= '9'; ++*format)
        number = number * 10 + (size_t)(**format - '0');
    return number;
}

static const char *convert(struct sink *sink, const char *format, va_list *arguments)
{
    struct conversion conversion = {.fill = ' ', .precision = SIZE_MAX};
    for (; *format == '#' || *format == '0'; ++format)
        if (*format == '0')
            conversion.fill = '0';
        else
            conversion.alternative = true;
    conversion.width = number_at(&format, arguments);
    if (*format == '.') {
        ++format;
        conversion.precision = number_at(&format, arguments);
    }
    for (; *format == 'l' || *format == 'z'; ++format)
        conversion.longs += *format == 'l';
    switch (*format) {
    case 'd': emit_signed(sink, &conversion, arguments); break;
    case 'u': emit_number(sink, &conversion, unsigned_of(&conversion, arguments), 10, false); break;
    case 'x': emit_number(sink, &conversion, unsigned_of(&conversion, arguments), 16, false); break;
    case 'g': emit_decimal(sink, va_arg(*arguments, double)); break;
    case 's': emit_text(sink, &conversion, va_arg(*arguments, const char *)); break;
    case 'c': emit(sink, &(char){(char)va_arg(*arguments, int)}, 1); break;
    case '%': emit(sink, "%", 1); break;
    default: host_exit(EXIT_FAILURE); /* the program prints what is not implemented here */
    }
    return format + 1;
}

static int format_to(struct sink *sink, const char *format, va_list given)
{
    va_list arguments;
    va_copy(arguments, given);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        emit(sink, format, plain);
        format += plain;
        if (*format)
            format = convert(sink, format + 1, &arguments);
    }
    va_end(arguments);
    if (sink->text && sink->size)
        sink->text[sink->length < sink->size ? sink->length : sink->size - 1] = '\0';
    return sink->failed ? EOF : (int)sink->length;
}

int vfprintf(FILE *file, const char *format, va_list arguments)
{
    struct sink sink = {.file = file};
    return format_to(&sink, format, arguments);
}

int fprintf(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vfprintf(file, format, arguments);
    va_end(arguments);
    return length;
}

int printf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vfprintf(stdout, format, arguments);
    va_end(arguments);
    return length;
}

int snprintf(char *text, size_t size, const char *format, ...)
{
    struct sink sink = {.text = text, .size = size};
    va_list arguments;
    va_start(arguments, format);
    const int length = format_to(&sink, format, arguments);
    va_end(arguments);
    return length;
}
