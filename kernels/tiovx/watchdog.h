/* Ends the program when another core does not answer: TIOVX would wait for it for ever. */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include <stdatomic.h>
#include <stdint.h>

/* One who waits: for whom, until when. */
struct watch {
    const char *item, *core;
    _Atomic uint64_t deadline_ns; /* 0: nobody waits */
    struct watch *next;
};

/* Once, before anything is waited for; the watch stays in use until the program ends. */
void watch_register(struct watch *watch);

/* Time limit of each. */
extern const unsigned tiovx_timeout_s;

/* Around a call that may wait; the end hands on what the call has returned. */
void watch_begin(struct watch *watch);
int watch_end(struct watch *watch, int returned);

#endif
