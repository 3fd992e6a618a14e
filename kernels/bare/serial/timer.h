/* The SysTick timer as a clock of the processor's cycles. */
#ifndef TIMER_H
#define TIMER_H

void timer_begin(void);

#endif
