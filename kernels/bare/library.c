/* Memory, texts and the end of the program: what is left of a C library where there is none. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

int errno;

extern unsigned char pool_begin[], pool_end[]; /* program.ld */

void *calloc(size_t count, size_t size)
{
    static unsigned char *next = pool_begin;
    const size_t left = (size_t)(pool_end - next);
    if (size && count > left / size)
        return NULL;
    const size_t bytes = (count * size + 7) & ~(size_t)7;
    if (bytes > left)
        return NULL;
    void *memory = memset(next, 0, bytes);
    next += bytes;
    return memory;
}

void free(void *memory)
{
    (void)memory;
}

void exit(int status)
{
    fflush(stdout);
    fflush(stderr);
    host_exit(status);
}

/* The loop below must not become a call of the function that it is. */
#define SELF __attribute__((optimize("no-tree-loop-distribute-patterns")))

SELF size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        ++length;
    return length;
}

size_t strcspn(const char *text, const char *ends)
{
    size_t length = 0;
    while (text[length] && !strchr(ends, text[length]))
        ++length;
    return length;
}

int strncmp(const char *one, const char *other, size_t most)
{
    size_t i = 0;
    while (i < most && one[i] && one[i] == other[i])
        ++i;
    return i == most ? 0 : (unsigned char)one[i] - (unsigned char)other[i];
}

int strcmp(const char *one, const char *other)
{
    return strncmp(one, other, SIZE_MAX);
}

char *strchr(const char *text, int character)
{
    while (*text && *text != (char)character)
        ++text;
    return *text == (char)character ? (char *)text : NULL;
}

char *strstr(const char *text, const char *part)
{
    const size_t length = strlen(part);
    for (; *text; ++text)
        if (strncmp(text, part, length) == 0)
            return (char *)text;
    return length ? NULL : (char *)text;
}

char *strtok(char *text, const char *separators)
{
    static char *next;
    text = text ? text : next;
    while (text && *text && strchr(separators, *text))
        ++text;
    if (!text || !*text)
        return NULL;
    next = text + strcspn(text, separators);
    if (*next)
        *next++ = '\0';
    return text;
}

char *strerror(int number)
{
    switch (number) {
    case ENOENT: return "No such file or directory";
    case ENOMEM: return "Cannot allocate memory";
    case EACCES: return "Permission denied";
    case ENOSPC: return "No space left on device";
    default: return "the host of the semihosting refuses it";
    }
}

long long strtoll(const char *text, char **end, int base)
{
    const char *at = text + (*text == '-');
    const unsigned long long limit = (unsigned long long)LLONG_MAX;
    unsigned long long value = 0;
    for (; *at >= '0' && *at <= '9'; ++at) {
        const unsigned digit = (unsigned)(*at - '0');
        if (value > (limit - digit) / (unsigned)base)
            errno = ERANGE;
        else
            value = value * (unsigned)base + digit;
    }
    *end = (char *)(at == text + (*text == '-') ? text : at);
    return *text == '-' ? -(long long)value : (long long)value;
}
