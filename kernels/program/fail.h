/* The one way to give up: a message on stderr that the host passes on, and an exit status that it understands.
 * And memory, for whose lack there is no other way.
 */
#ifndef FAIL_H
#define FAIL_H

#include <stddef.h>

enum {
    EXIT_USAGE = 2,   /* the host asked for something wrong */
    EXIT_IO = 3,      /* a file could not be read or written */
    EXIT_SYSTEM = 4,  /* threads, priorities, processor affinity */
};

_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "<what> <name>: <reason from errno>" */
_Noreturn void fail_errno(int status, const char *what, const char *name);

/* Zeroed memory, also for a count of 0; exits with a message where there is none. */
void *allocate(size_t count, size_t size);

#endif
