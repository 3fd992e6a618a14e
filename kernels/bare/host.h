/* Calls to the host, which has the files, the command line and the console of the program.  Arm semihosting carries
 * them (semihosting/host.c), or a serial line (serial/host.c).  There is no other way in or out of the program.
 */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are those of semihosting. */
enum host_mode { HOST_READ = 1, HOST_WRITE = 5, HOST_STDOUT = 4, HOST_STDERR = 8 };

/* Open the way to the host; called first. */
void host_begin(void);

/* The handle of an opened file of the host, -1 where there is none.  The file ":tt" is the console. */
int host_open(const char *path, enum host_mode mode);

int host_close(int handle);

/* Return how many bytes were not written, or not read. */
size_t host_write(int handle, const void *data, size_t bytes);
size_t host_read(int handle, void *data, size_t bytes);

int host_seek(int handle, size_t position);

/* Return the reason of the last failure, in the host's numbers. */
int host_errno(void);

/* Store the words of the command line, one a line; return whether they have room. */
int host_command_line(char *text, size_t size);

/* Return the time since the program was started, and how many of its units there are in a second. */
uint64_t host_elapsed(void);
uint64_t host_frequency(void);

_Noreturn void host_exit(int status);

#endif
