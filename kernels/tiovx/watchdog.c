#define _GNU_SOURCE
#include "watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

enum { PERIOD_MS = 500 }; /* so rare that it disturbs no measurement */

static struct watch *_Atomic watches;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* At once, past whatever TIOVX would do at an exit: it might wait for the same core. */
static void look_after(const struct watch *watch)
{
    const uint64_t deadline_ns = atomic_load(&watch->deadline_ns);
    if (!deadline_ns || now_ns() <= deadline_ns)
        return;
    fprintf(stderr,
            "inference: item %s: %s has not answered for %u seconds: use a smaller --block, or raise tiovx.timeout_s "
            "of the profile; if it hangs, see its log (/opt/vx_app_arm_remote_log.out on the board), then reboot it\n",
            watch->item, watch->core, tiovx_timeout_s);
    _exit(EXIT_SYSTEM);
}

static void *look(void *unused)
{
    const struct timespec period = {0, PERIOD_MS * 1000000L};
    for (;;) {
        nanosleep(&period, NULL);
        for (struct watch *watch = atomic_load(&watches); watch; watch = watch->next)
            look_after(watch);
    }
    return unused;
}

void watch_register(struct watch *watch)
{
    pthread_t thread;
    const int first = atomic_load(&watches) == NULL;
    watch->next = atomic_load(&watches);
    atomic_store(&watches, watch);
    if (first && (pthread_create(&thread, NULL, look, NULL) != 0 || pthread_detach(thread) != 0))
        fail(EXIT_SYSTEM, "cannot start the watchdog of item %s", watch->item);
}

void watch_begin(struct watch *watch)
{
    atomic_store(&watch->deadline_ns, now_ns() + tiovx_timeout_s * UINT64_C(1000000000));
}

int watch_end(struct watch *watch, int returned)
{
    atomic_store(&watch->deadline_ns, 0);
    return returned;
}
