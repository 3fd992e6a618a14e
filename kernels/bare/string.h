/* The part of string.h that the board program, the kernels and the compiler use. */
#ifndef STRING_H
#define STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *one, const void *other, size_t bytes);
size_t strlen(const char *text);
size_t strcspn(const char *text, const char *ends);
int strcmp(const char *one, const char *other);
int strncmp(const char *one, const char *other, size_t most);
char *strchr(const char *text, int character);
char *strstr(const char *text, const char *part);
char *strtok(char *text, const char *separators);
char *strerror(int number);

#endif
