#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("inference: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail(EXIT_SYSTEM, "out of memory");
    return memory;
}

void fail_errno(int status, const char *what, const char *name)
{
    fail(status, "%s %s: %s", what, name, strerror(errno));
}
