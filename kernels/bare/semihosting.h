/* Arm semihosting: calls to the host that debugs or emulates this processor (Arm, Semihosting for AArch32 and AArch64,
 * 2022).  There is no other way in or out of the program.
 */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>
#include <stdint.h>

enum semihosting_mode { SEMIHOSTING_READ = 1, SEMIHOSTING_WRITE = 5, SEMIHOSTING_STDOUT = 4, SEMIHOSTING_STDERR = 8 };

/* The handle of an opened file of the host, -1 where there is none.  The file ":tt" is the console. */
int semihosting_open(const char *path, enum semihosting_mode mode);

int semihosting_close(int handle);

/* Return how many bytes were not written, or not read. */
size_t semihosting_write(int handle, const void *data, size_t bytes);
size_t semihosting_read(int handle, void *data, size_t bytes);

int semihosting_seek(int handle, size_t position);

/* Return the reason of the last failure, in the host's numbers. */
int semihosting_errno(void);

/* Store the words of the command line, one a line; return whether they have room. */
int semihosting_command_line(char *text, size_t size);

/* Return the time since the program was started, and how many of its units there are in a second. */
uint64_t semihosting_elapsed(void);
uint64_t semihosting_frequency(void);

_Noreturn void semihosting_exit(int status);

#endif
