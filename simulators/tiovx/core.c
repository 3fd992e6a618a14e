#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "faults.h"
#include "firmware.h"
#include "perf.h"
#include "target.h"

enum { SIGNAL_STACK = 65536 };

static struct processor {
    pthread_t thread;
    struct request *first, **last; /* what waits */
    int ready, ending;
} processors[CORES];

/* Mutex of all queues; `changed` signals every change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static uint64_t requests;
static int started;

/* NULL when the core is to end. */
static struct request *take(struct processor *me)
{
    pthread_mutex_lock(&lock);
    while (!me->first && !me->ending)
        pthread_cond_wait(&changed, &lock);
    struct request *request = me->first;
    if (request) {
        me->first = request->next;
        me->last = me->first ? me->last : &me->first;
    }
    pthread_mutex_unlock(&lock);
    return request;
}

/* With the lock. */
static void await(const int *flag)
{
    while (!*flag)
        pthread_cond_wait(&changed, &lock);
}

static void tell_change(int *flag)
{
    pthread_mutex_lock(&lock);
    *flag = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void answer(struct request *request)
{
    const enum process_fault fault = request->callback == PROCESS ? fault_of_process() : PROCESS_WELL;
    while (fault == PROCESS_HANGS)
        pause();
    request->begin_us = request->end_us = now_us();
    request->status = VX_FAILURE;
    if (fault != PROCESS_FAILS)
        target_execute(request);
    tell_change(&request->answered);
}

static void *run(void *processor)
{
    struct processor *me = processor;
    const stack_t alternate = {.ss_sp = allocate(SIGNAL_STACK), .ss_size = SIGNAL_STACK};
    const stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&alternate, NULL);
    running.core = (enum core)(me - processors);
    firmware_start(running.core);
    tell_change(&me->ready);
    for (struct request *request = take(me); request; request = take(me))
        answer(request);
    firmware_end(running.core);
    sigaltstack(&none, NULL);
    free(alternate.ss_sp);
    return NULL;
}

static void start(enum core core)
{
    struct processor *processor = &processors[core];
    *processor = (struct processor){.last = &processor->first};
    if (pthread_create(&processor->thread, NULL, run, processor) != 0)
        fail("there is no thread for %s", core_name(core));
    pthread_mutex_lock(&lock);
    await(&processor->ready);
    pthread_mutex_unlock(&lock);
}

void cores_start(void)
{
    for (enum core core = 0; core < CORES; ++core)
        start(core);
    started = 1;
}

void cores_stop(void)
{
    for (enum core core = 0; core < CORES; ++core) {
        tell_change(&processors[core].ending);
        pthread_join(processors[core].thread, NULL);
    }
    started = 0;
}

int cores_run(void)
{
    return started;
}

vx_status core_ask(enum core core, struct request *request)
{
    request->answered = 0;
    request->next = NULL;
    pthread_mutex_lock(&lock);
    request->number = ++requests;
    *processors[core].last = request;
    processors[core].last = &request->next;
    pthread_cond_broadcast(&changed);
    await(&request->answered);
    pthread_mutex_unlock(&lock);
    return request->status;
}
