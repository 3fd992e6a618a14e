/* From the reset of the processor to main: vector table, floating-point unit, memory, command line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h" /* written from the board's profile */
#include "fail.h"
#include "host.h"

enum { LONGEST_COMMAND_LINE = 8192, MOST_WORDS = 64, GUARD_BYTES = 1024, GUARD = 0xa5 };

extern unsigned char data_begin[], data_end[], data_source[], bss_begin[], bss_end[]; /* program.ld */
extern unsigned char pool_end[], stack_top[]; /* between them is the stack */

int main(int argc, char **argv);

/* The end of the stack, which grows down to it, must hold what it held: no unit of the processor guards it.
 *
 * An array that reaches beyond the stack covers the guard, too, so what was written beyond it is no result. */
static void require_guard(void)
{
    unsigned char different = 0;
    for (size_t i = 0; i < GUARD_BYTES; ++i)
        different |= pool_end[i] ^ GUARD;
    if (different)
        fail(EXIT_SYSTEM, "the stack is full: raise stack_kib in bare_metal of the board's profile");
}

/* The words of the command line are its lines: a path may contain spaces. */
static __attribute__((used, noreturn)) void begin(void)
{
    static char text[LONGEST_COMMAND_LINE], *words[MOST_WORDS + 1];
    int count = 0;
    memcpy(data_begin, data_source, (size_t)(data_end - data_begin));
    memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
    memset(pool_end, GUARD, GUARD_BYTES);
    host_begin();
    if (!host_command_line(text, sizeof text))
        fail(EXIT_USAGE, "the command line has more than %d characters", LONGEST_COMMAND_LINE - 1);
    for (char *word = strtok(text, "\n"); word; word = strtok(NULL, "\n"), ++count)
        if (count < MOST_WORDS)
            words[count] = word;
    if (count > MOST_WORDS)
        fail(EXIT_USAGE, "the command line has more than %d words", MOST_WORDS);
    const int status = main(count, words);
    require_guard();
    exit(status);
}

static __attribute__((used, noreturn)) void end_at_exception(const char *kind, uintptr_t address)
{
    fail(EXIT_SYSTEM, "the processor stopped at %#lx: %s", (unsigned long)address, kind);
}

#if __ARM_ARCH_PROFILE == 'M'

enum { TIMER = 15, EXCEPTIONS = 16 };

/* Full access to coprocessors 10 and 11, which are the floating-point unit, before any code that uses it. */
__attribute__((naked, noreturn)) void _start(void)
{
    __asm__ volatile("ldr r0, =0xe000ed88\n\tldr r1, [r0]\n\torr r1, r1, #0xf00000\n\tstr r1, [r0]\n\t"
                     "dsb\n\tisb\n\tb begin");
}

static __attribute__((used, noreturn)) void end_at_frame(const uintptr_t *frame)
{
    end_at_exception("a fault, such as an address without memory or a full stack", frame[6]);
}

static __attribute__((naked)) void stop(void)
{
    __asm__ volatile("mov r0, sp\n\tldr r1, =stack_top\n\tmov sp, r1\n\tb end_at_frame");
}

#ifdef INTERRUPTS

void on_timer(void);
void on_interrupt(void);

__attribute__((section(".vectors"), used)) static const void *const vectors[EXCEPTIONS + INTERRUPTS] = {
    stack_top, (const void *)_start, [2 ... TIMER - 1] = (const void *)stop, [TIMER] = (const void *)on_timer,
    [EXCEPTIONS ... EXCEPTIONS + INTERRUPTS - 1] = (const void *)on_interrupt};

#else

__attribute__((section(".vectors"), used)) static const void *const vectors[EXCEPTIONS] = {
    stack_top, (const void *)_start, [2 ... EXCEPTIONS - 1] = (const void *)stop};

#endif

#else

/* Exceptions have stacks of their own; that of the program is not needed any more. */
#define STOP(NAME, KIND, OFFSET)                                                                        \
    static const char NAME##_kind[] __attribute__((used)) = KIND;                                      \
    __attribute__((naked, used, target("arm"))) static void NAME(void)                                 \
    {                                                                                                  \
        __asm__ volatile("ldr sp, =stack_top\n\tsub r1, lr, #" OFFSET "\n\tldr r0, =" #NAME "_kind\n\t" \
                         "ldr r2, =end_at_exception\n\tbx r2");                                        \
    }

STOP(undefined, "an undefined instruction", "4")
STOP(call, "a call of an operating system", "4")
STOP(fetch, "an instruction fetch without memory", "4")
STOP(access, "an access without memory, or a full stack", "8")
STOP(interrupt, "an interrupt", "4")

/* Access to coprocessors 10 and 11, which are the floating-point unit, and its enable bit, before code that uses it. */
__attribute__((naked, used, target("arm"))) static void reset(void)
{
    __asm__ volatile("ldr sp, =stack_top\n\tmrc p15, 0, r0, c1, c0, 2\n\torr r0, r0, #0xf00000\n\t"
                     "mcr p15, 0, r0, c1, c0, 2\n\tisb\n\tmov r0, #0x40000000\n\tvmsr fpexc, r0\n\t"
                     "ldr r0, =begin\n\tbx r0");
}

__attribute__((naked, section(".vectors"), noreturn, target("arm"))) void _start(void)
{
    __asm__ volatile("b reset\n\tb undefined\n\tb call\n\tb fetch\n\tb access\n\tb interrupt\n\tb interrupt\n\tb interrupt");
}

#endif
