#include "double.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINE = 1024 };

static THREAD_LOCAL const char *label = "";

void label_messages(const char *text)
{
    label = text;
}

/* One write, so that lines of several threads stay whole; no stdio, which a signal handler must not enter. */
static void tell(const char *format, va_list arguments)
{
    char line[LINE];
    size_t used = (size_t)snprintf(line, LINE, "TIOVX double: %.*s", LINE / 2, label);
    const int wanted = vsnprintf(&line[used], LINE - 1 - used, format, arguments);
    used += wanted < (int)(LINE - 1 - used) ? (size_t)wanted : LINE - 2 - used;
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        _exit(EXIT_STRICT);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    _exit(EXIT_STRICT);
}

vx_status refuse(vx_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
    return status;
}

void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        fail("out of memory");
    return memory;
}
