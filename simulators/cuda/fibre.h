/* Fibres: stacks of their own in one thread of the processor, which switches when it is told to.
 *
 * The switch keeps what a function must keep for its caller, by the procedure call standards of x86-64 (System V) and
 * AArch64; elsewhere it is swapcontext, which makes two system calls.
 */
#ifndef FIBRE_H
#define FIBRE_H

#if !defined(SIMULATION_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SIMULATION_UCONTEXT
#endif

#ifdef SIMULATION_UCONTEXT
#include <ucontext.h>
#endif

namespace {

constexpr size_t STACK_BYTES = 64 * 1024, GUARD_BYTES = 4096;

struct Fibre {
    char *stack; /* its highest address */
#ifdef SIMULATION_UCONTEXT
    ucontext_t context;
#else
    void *stopped; /* the stack pointer where it switched away */
#endif
};

/* Stacks end at different lines of a page, lest all of them share the same few lines of a cache. */
void make_stack(Fibre &fibre, unsigned number)
{
    char *const memory =
        (char *)mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
        fputs("host-simulation of CUDA: no memory for the stacks of a block's threads\n", stderr);
        abort();
    }
    fibre.stack = memory + STACK_BYTES - number % 16 * 256;
}

#ifdef SIMULATION_UCONTEXT

void prepare_fibre(Fibre &fibre, void (*entry)())
{
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack - STACK_BYTES / 2;
    fibre.context.uc_stack.ss_size = STACK_BYTES / 2;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, entry, 0);
}

void switch_fibre(Fibre *from, Fibre *to)
{
    swapcontext(&from->context, &to->context);
}

#else

/* (where to keep the stack pointer of this fibre, that of the other) */
extern "C" SIMULATED_HIDDEN void simulated_switch(void **from, void *to);

#ifdef __x86_64__
asm(R"(
    .text
    .hidden simulated_switch
    .globl simulated_switch
    .type simulated_switch, @function
simulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simulated_switch, .-simulated_switch
)");
/* Kept words below the entry; one above it, so that the entry finds the stack aligned as after a call. */
constexpr size_t FRAME_WORDS = 8, ENTRY_WORD = 6;
#else
asm(R"(
    .text
    .hidden simulated_switch
    .globl simulated_switch
    .type simulated_switch, %function
simulated_switch:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
    .size simulated_switch, .-simulated_switch
)");
constexpr size_t FRAME_WORDS = 20, ENTRY_WORD = 1;
#endif

/* A stack as if `entry` were the place where it switched away. */
void prepare_fibre(Fibre &fibre, void (*entry)())
{
    void **const frame = (void **)fibre.stack - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[ENTRY_WORD] = (void *)entry;
    fibre.stopped = frame;
}

void switch_fibre(Fibre *from, Fibre *to)
{
    simulated_switch(&from->stopped, to->stopped);
}

#endif

} // namespace

#endif
