#include "strict.hpp"

#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace xrt_double {

namespace {

enum { LINE = 1024 };

/* One write, so that lines of several threads stay whole; no stdio, which a signal handler must not enter. */
void write_line(const char *format, va_list arguments)
{
    char line[LINE] = "XRT double: ";
    size_t used = sizeof "XRT double: " - 1;
    const int wanted = vsnprintf(&line[used], LINE - 1 - used, format, arguments);
    used += wanted < (int)(LINE - 1 - used) ? (size_t)wanted : LINE - 2 - used;
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        _exit(EXIT_STRICT);
}

} // namespace

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    _exit(EXIT_STRICT);
}

void tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

} // namespace xrt_double
