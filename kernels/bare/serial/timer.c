#include "timer.h"

#include <stdint.h>

#include "board.h"
#include "host.h"

enum { PERIOD = 1 << 24 };

#define TIMER_CONTROL (*(volatile uint32_t *)0xe000e010u)
#define TIMER_RELOAD (*(volatile uint32_t *)0xe000e014u)
#define TIMER_VALUE (*(volatile uint32_t *)0xe000e018u)

static volatile uint32_t periods;

/* The handler of its interrupt, once in a period. */
void on_timer(void)
{
    ++periods;
}

void timer_begin(void)
{
    TIMER_RELOAD = PERIOD - 1;
    TIMER_VALUE = 0;
    TIMER_CONTROL = 7; /* the processor's clock, with an interrupt */
}

/* The value is 0 for one cycle between the end of a period and the next one. */
uint64_t host_elapsed(void)
{
    uint32_t before, value;
    do {
        before = periods;
        value = TIMER_VALUE;
    } while (value == 0 || before != periods);
    return (uint64_t)before * PERIOD + (PERIOD - 1 - value);
}

uint64_t host_frequency(void)
{
    return CLOCK_HZ;
}
