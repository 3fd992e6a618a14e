/* Arm semihosting: calls to the host that debugs or emulates this processor (Arm, Semihosting for AArch32 and AArch64,
 * 2022).
 */
#include "host.h"

#include <string.h>

enum {
    SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_SEEK = 0x0a, SYS_ERRNO = 0x13,
    SYS_GET_CMDLINE = 0x15, SYS_EXIT_EXTENDED = 0x20, SYS_ELAPSED = 0x30, SYS_TICKFREQ = 0x31,
    APPLICATION_EXIT = 0x20026,
};

static int call(int operation, const void *parameters)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = parameters;
#if __ARM_ARCH_PROFILE == 'M'
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
#elif defined(__thumb__)
    __asm__ volatile("svc 0xab" : "+r"(r0) : "r"(r1) : "memory", "lr");
#else
    __asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
#endif
    return r0;
}

static int call_of_three(int operation, uintptr_t first, uintptr_t second, uintptr_t third)
{
    const uintptr_t parameters[] = {first, second, third};
    return call(operation, parameters);
}

void host_begin(void)
{
}

int host_open(const char *path, enum host_mode mode)
{
    return call_of_three(SYS_OPEN, (uintptr_t)path, mode, strlen(path));
}

int host_close(int handle)
{
    return call_of_three(SYS_CLOSE, (uintptr_t)handle, 0, 0);
}

size_t host_write(int handle, const void *data, size_t bytes)
{
    return (size_t)call_of_three(SYS_WRITE, (uintptr_t)handle, (uintptr_t)data, bytes);
}

size_t host_read(int handle, void *data, size_t bytes)
{
    return (size_t)call_of_three(SYS_READ, (uintptr_t)handle, (uintptr_t)data, bytes);
}

int host_seek(int handle, size_t position)
{
    return call_of_three(SYS_SEEK, (uintptr_t)handle, position, 0);
}

int host_errno(void)
{
    return call(SYS_ERRNO, NULL);
}

int host_command_line(char *text, size_t size)
{
    const uintptr_t parameters[] = {(uintptr_t)text, size};
    return call(SYS_GET_CMDLINE, parameters) == 0;
}

uint64_t host_elapsed(void)
{
    uint64_t ticks = 0;
    call(SYS_ELAPSED, &ticks);
    return ticks;
}

uint64_t host_frequency(void)
{
    return (uint64_t)call(SYS_TICKFREQ, NULL);
}

void host_exit(int status)
{
    for (;;)
        call_of_three(SYS_EXIT_EXTENDED, APPLICATION_EXIT, (uintptr_t)status, 0);
}
