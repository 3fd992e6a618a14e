/* Reasons of failures, in the numbers of semihosting. */
#ifndef ERRNO_H
#define ERRNO_H

enum { ENOENT = 2, ENOMEM = 12, EACCES = 13, ENOSPC = 28, ERANGE = 34 };

extern int errno;

#endif
