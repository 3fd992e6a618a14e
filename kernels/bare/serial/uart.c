#include "uart.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h" /* written from the board's profile */

static volatile uint32_t *word(uintptr_t address)
{
    return (volatile uint32_t *)address;
}

static volatile uint32_t *port(uintptr_t offset)
{
    return word(UART_REGISTERS + offset);
}

/* The differences between ports: `enable` sets the baud rate and switches on reception, transmission and the interrupt of
 * a received byte; `acknowledge` ends that interrupt where reading the byte does not.
 */
#if defined(UART_CMSDK) /* Arm Cortex-M System Design Kit, APB UART */

enum { RECEIVED = 0x00, TO_SEND = 0x00, STATE = 0x04, CONTROL = 0x08, INTERRUPT = 0x0c, DIVISOR = 0x10 };

static bool can_send(void) { return (*port(STATE) & 1u) == 0; }
static bool can_receive(void) { return (*port(STATE) & 2u) != 0; }
static void acknowledge(void) { *port(INTERRUPT) = 2u; }

static void enable(void)
{
    *port(DIVISOR) = CLOCK_HZ / BAUD;
    *port(CONTROL) = 0x0bu;
}

#elif defined(UART_STM32F4) /* STM32 F1, F2, F4, L1: USART with status and data registers */

enum { STATE = 0x00, RECEIVED = 0x04, TO_SEND = 0x04, DIVISOR = 0x08, CONTROL = 0x0c };

static bool can_send(void) { return (*port(STATE) & 0x80u) != 0; }
static bool can_receive(void) { return (*port(STATE) & 0x20u) != 0; }
static void acknowledge(void) {}

static void enable(void)
{
    *port(DIVISOR) = CLOCK_HZ / BAUD;
    *port(CONTROL) = 0x202cu;
}

#elif defined(UART_STM32F7) /* STM32 F0, F3, F7, G, H, L4, U5: USART with separate data registers */

enum { CONTROL = 0x00, DIVISOR = 0x0c, STATE = 0x1c, CLEAR = 0x20, RECEIVED = 0x24, TO_SEND = 0x28 };

static bool can_send(void) { return (*port(STATE) & 0x80u) != 0; }
static bool can_receive(void) { return (*port(STATE) & 0x20u) != 0; }
static void acknowledge(void) { *port(CLEAR) = 0x0au; } /* overrun and framing errors */

static void enable(void)
{
    *port(DIVISOR) = CLOCK_HZ / BAUD;
    *port(CONTROL) = 0x2du;
}

#elif defined(UART_LPUART) /* NXP i.MX RT and Kinetis */

enum { RATE = 0x10, STATE = 0x14, CONTROL = 0x18, RECEIVED = 0x1c, TO_SEND = 0x1c, OVERSAMPLING = 16 };

static bool can_send(void) { return (*port(STATE) & 0x800000u) != 0; }
static bool can_receive(void) { return (*port(STATE) & 0x200000u) != 0; }
static void acknowledge(void) { *port(STATE) = 0x080000u; } /* overrun */

static void enable(void)
{
    *port(RATE) = (OVERSAMPLING - 1u) << 24 | CLOCK_HZ / (BAUD * OVERSAMPLING);
    *port(CONTROL) = 0x2c0000u;
}

#endif

#ifdef UART_INTERRUPT

enum { INTERRUPT_ENABLE = 0x100, INTERRUPT_DISABLE = 0x180, PENDING_CLEAR = 0x280 };

/* The registers of the interrupt controller have a bit for each interrupt. */
static void set_interrupt(uintptr_t registers)
{
    *word(0xe000e000u + registers + UART_INTERRUPT / 32 * 4) = 1u << UART_INTERRUPT % 32;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

/* The interrupt only ends the wait below; the byte is read there. */
void on_interrupt(void)
{
    set_interrupt(INTERRUPT_DISABLE);
}

/* Sleep until a byte arrives: an emulator receives nothing while the processor reads the state in a loop.
 *
 * Interrupts are masked between the check and the sleep, so that no byte is missed; a masked interrupt still ends the
 * sleep.  In the handler of a fault it does not, so the state is read in a loop there. */
static void wait_for_byte(void)
{
    uint32_t exception;
    __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
    if (exception != 0)
        return;
    __asm__ volatile("cpsid i" ::: "memory");
    acknowledge();
    set_interrupt(PENDING_CLEAR);
    set_interrupt(INTERRUPT_ENABLE);
    if (!can_receive())
        __asm__ volatile("wfi" ::: "memory");
    __asm__ volatile("cpsie i" ::: "memory");
}

#else

void on_interrupt(void)
{
}

static void wait_for_byte(void)
{
    acknowledge();
}

#endif

void uart_begin(void)
{
    static const uint32_t setup[][2] = {SETUP {0, 0}};
    for (size_t i = 0; setup[i][0] != 0; ++i)
        *word(setup[i][0]) = setup[i][1];
    enable();
}

void uart_send(unsigned char byte)
{
    while (!can_send())
        continue;
    *port(TO_SEND) = byte;
}

unsigned char uart_receive(void)
{
    while (!can_receive())
        wait_for_byte();
    return (unsigned char)*port(RECEIVED);
}
