#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "fail.h"

enum { SPINS = 1000 }; /* of a reader, before it lets others have its core */

struct worker {
    const struct item *item;
    pthread_t thread;
    long delay_us;
    uint64_t random; /* state of its random delays */
    struct interval *intervals;
};

/* How many executions a flag has been raised for; each in a cache line of its own. */
struct flag {
    atomic_size_t raised;
    char rest[64 - sizeof(atomic_size_t)];
};

static struct worker *workers;
static pthread_barrier_t *barriers;          /* of the hand-overs, or */
static struct flag *flags;                   /* as the plan says */
static pthread_barrier_t released, finished; /* crossed by all items and the main thread */
static struct execution *under_way;          /* (depth), written by the main thread before `released` */
static size_t tick;                          /* as above */
static bool stopping;                        /* as above */
static bool recording;                       /* constant once the threads run */
static long random_delay_us;                 /* as above */

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

/* A number from 0 to `limit` (Marsaglia, xorshift). */
static long draw(struct worker *worker, long limit)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (long)(worker->random % (uint64_t)(limit + 1));
}

static void delay_step(struct worker *worker, const struct step *step)
{
    if (worker->delay_us && step->kind == STEP_TASK)
        sleep_us(worker->delay_us);
    if (random_delay_us)
        sleep_us(draw(worker, random_delay_us));
}

static void wait_for_flag(const struct flag *flag, size_t execution)
{
    for (unsigned spins = 0; atomic_load_explicit(&flag->raised, memory_order_acquire) <= execution; ++spins)
        if (spins >= SPINS)
            sched_yield();
}

static void run_step(const struct step *step, struct execution execution)
{
    switch (step->kind) {
    case STEP_TASK: network.tasks[step->index].forward(execution.vectors, execution.index); break;
    case STEP_MEET: pthread_barrier_wait(&barriers[step->index]); break;
    case STEP_RAISE:
        atomic_store_explicit(&flags[step->index].raised, execution.index + 1, memory_order_release);
        break;
    case STEP_WAIT: wait_for_flag(&flags[step->index], execution.index); break;
    }
}

static void run_steps(struct worker *worker)
{
    for (size_t i = 0; i < worker->item->step_count; ++i) {
        const struct step *step = &worker->item->steps[i];
        const struct execution execution = schedule_execution(schedule_stage(step));
        if (execution.vectors == 0)
            continue;
        if (recording)
            worker->intervals[i].begin_ns = now_ns();
        delay_step(worker, step);
        run_step(step, execution);
        if (recording)
            worker->intervals[i].end_ns = now_ns();
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
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
        CPU_SET((size_t)core, &set);
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

static void prepare_hand_overs(void)
{
    const unsigned everyone = (unsigned)network.item_count + 1;
    require(pthread_barrier_init(&released, NULL, everyone), "cannot create barrier", "released");
    require(pthread_barrier_init(&finished, NULL, everyone), "cannot create barrier", "finished");
    flags = allocate(network.hand_over_count, sizeof *flags);
    barriers = allocate(network.hand_over_count, sizeof *barriers);
    for (size_t i = 0; i < network.hand_over_count; ++i)
        require(pthread_barrier_init(&barriers[i], NULL, network.hand_overs[i].parties), "cannot create barrier",
                network.hand_overs[i].name);
}

void schedule_start(const struct options *options)
{
    recording = options->time != TIME_NONE || options->trace;
    random_delay_us = options->random_delay_us;
    prepare_hand_overs();
    under_way = allocate(network.depth, sizeof *under_way);
    workers = allocate(network.item_count, sizeof *workers);
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct item *item = &network.items[i];
        workers[i] = (struct worker){.item = item, .delay_us = options->delay_us[i]};
        workers[i].random = (options->random_seed + 1) * 0x9E3779B97F4A7C15u + i; /* not 0, and not alike */
        workers[i].intervals = allocate(item->step_count, sizeof *workers[i].intervals);
        item->init(options);
    }
    for (size_t i = 0; i < network.item_count; ++i)
        start_worker(&workers[i], options->core[i], options->fifo);
}

void schedule_run_tick(size_t vectors)
{
    static size_t begun;
    tick = begun++;
    under_way[tick % network.depth] = (struct execution){tick, vectors};
    pthread_barrier_wait(&released);
    pthread_barrier_wait(&finished);
}

struct execution schedule_execution(size_t stage)
{
    return under_way[(tick + network.depth - stage) % network.depth];
}

size_t schedule_stage(const struct step *step)
{
    return step->kind == STEP_TASK ? network.tasks[step->index].stage : 0;
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
