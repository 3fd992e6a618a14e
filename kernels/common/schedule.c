#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "fail.h"

struct worker {
    const struct item *item;
    pthread_t thread;
    long delay_us;
    struct interval *intervals;
};

static struct worker *workers;
static pthread_barrier_t *barriers;
static pthread_barrier_t released, finished; /* crossed by all items and the main thread */
static size_t block_vectors;                 /* written by the main thread before `released` */
static bool stopping;                        /* as above */
static bool recording;                       /* constant once the threads run */

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(TIME_SOURCE, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void sleep_us(long duration_us)
{
    const struct timespec duration = {duration_us / 1000000, duration_us % 1000000 * 1000};
    nanosleep(&duration, NULL);
}

static void run_step(const struct worker *worker, const struct step *step)
{
    if (step->kind == STEP_BARRIER) {
        pthread_barrier_wait(&barriers[step->index]);
        return;
    }
    if (worker->delay_us)
        sleep_us(worker->delay_us);
    network.layers[step->index].forward(block_vectors);
}

static void run_steps(const struct worker *worker)
{
    for (size_t i = 0; i < worker->item->step_count; ++i) {
        if (recording)
            worker->intervals[i].begin_ns = now_ns();
        run_step(worker, &worker->item->steps[i]);
        if (recording)
            worker->intervals[i].end_ns = now_ns();
    }
}

static void *work(void *argument)
{
    const struct worker *worker = argument;
    for (;;) {
        pthread_barrier_wait(&released);
        if (stopping)
            return NULL;
        run_steps(worker);
        pthread_barrier_wait(&finished);
    }
}

static void require(int error, const char *what, const char *item)
{
    errno = error;
    if (error != 0)
        fail_errno(EXIT_SYSTEM, what, item);
}

static void start_worker(struct worker *worker, int core, int fifo)
{
    const char *name = worker->item->name;
    pthread_attr_t attributes;
    require(pthread_attr_init(&attributes), "cannot prepare item", name);
    if (core >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(core, &set);
        require(pthread_attr_setaffinity_np(&attributes, sizeof set, &set), "cannot pin item", name);
    }
    if (fifo > 0) {
        const struct sched_param parameter = {.sched_priority = fifo};
        require(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), "cannot schedule item", name);
        require(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO), "cannot schedule item", name);
        require(pthread_attr_setschedparam(&attributes, &parameter), "cannot schedule item", name);
    }
    require(pthread_create(&worker->thread, &attributes, work, worker),
            "cannot start (with the core of --pin and the priority of --fifo) item", name);
    pthread_attr_destroy(&attributes);
}

static void prepare_barriers(void)
{
    const unsigned everyone = (unsigned)network.item_count + 1;
    require(pthread_barrier_init(&released, NULL, everyone), "cannot create barrier", "released");
    require(pthread_barrier_init(&finished, NULL, everyone), "cannot create barrier", "finished");
    barriers = allocate(network.barrier_count, sizeof *barriers);
    for (size_t i = 0; i < network.barrier_count; ++i)
        require(pthread_barrier_init(&barriers[i], NULL, network.barriers[i].parties), "cannot create barrier",
                network.barriers[i].name);
}

void schedule_start(const struct options *options)
{
    recording = options->time != TIME_NONE || options->trace;
    prepare_barriers();
    workers = allocate(network.item_count, sizeof *workers);
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct item *item = &network.items[i];
        workers[i] = (struct worker){.item = item, .delay_us = options->delay_us[i]};
        workers[i].intervals = allocate(item->step_count, sizeof *workers[i].intervals);
        item->init();
    }
    for (size_t i = 0; i < network.item_count; ++i)
        start_worker(&workers[i], options->core[i], options->fifo);
}

void schedule_run_block(size_t vectors)
{
    block_vectors = vectors;
    pthread_barrier_wait(&released);
    pthread_barrier_wait(&finished);
}

const struct interval *schedule_intervals(size_t item)
{
    return workers[item].intervals;
}

void schedule_stop(void)
{
    stopping = true;
    pthread_barrier_wait(&released);
    for (size_t i = 0; i < network.item_count; ++i) {
        pthread_join(workers[i].thread, NULL);
        network.items[i].close();
    }
}
