#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "fail.h"

enum { SPINS = 1000 }; /* of a reader, before it lets others have its core */

struct worker {
    const struct item *item;
    pthread_t thread;
    long delay_us;
    uint64_t random; /* state of its random delays */
    struct reading *readings;
    struct interval *intervals;
};

/* Whether anything is read before a step, and after it. */
struct reading {
    bool begin, end;
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
static long random_delay_us;                 /* constant once the threads run */

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

static ONE_CODE void wait_for_flag(const struct flag *flag, size_t execution)
{
    for (unsigned spins = 0; atomic_load_explicit(&flag->raised, memory_order_acquire) <= execution; ++spins)
        if (spins >= SPINS)
            sched_yield();
}

static ONE_CODE void raise_flag(struct flag *flag, size_t execution)
{
    atomic_store_explicit(&flag->raised, execution + 1, memory_order_release);
}

static void run_step(const struct step *step, struct execution execution)
{
    switch (step->kind) {
    case STEP_TASK: network.tasks[step->index].forward(execution.vectors, execution.index); break;
    case STEP_MEET: pthread_barrier_wait(&barriers[step->index]); break;
    case STEP_RAISE: raise_flag(&flags[step->index], execution.index); break;
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
        const struct reading reading = worker->readings[i];
        if (reading.begin)
            worker->intervals[i].begin = meter_read();
        delay_step(worker, step);
        run_step(step, execution);
        if (reading.end)
            worker->intervals[i].end = meter_read();
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    meter_open();
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

static bool is_task_of(const struct step *step, size_t stage)
{
    return step->kind == STEP_TASK && schedule_stage(step) == stage;
}

/* The first and the last task of each stage: all in between is the network's time, and no reading is part of it. */
static void read_outermost(const struct item *item, struct reading *readings)
{
    for (size_t stage = 0; stage < network.depth; ++stage) {
        size_t first = item->step_count, last = 0;
        for (size_t i = 0; i < item->step_count; ++i)
            if (is_task_of(&item->steps[i], stage)) {
                first = i < first ? i : first;
                last = i;
            }
        if (first < item->step_count)
            readings[first].begin = readings[last].end = true;
    }
}

static void prepare_readings(struct worker *worker, const struct options *options)
{
    const struct item *item = worker->item;
    worker->intervals = allocate(item->step_count, sizeof *worker->intervals);
    worker->readings = allocate(item->step_count, sizeof *worker->readings);
    const bool outermost = options->time == TIME_NETWORK && options->quantity == READ_TIME && !options->trace;
    const bool each = !outermost && (options->time != TIME_NONE || options->trace);
    for (size_t i = 0; i < item->step_count; ++i) {
        worker->intervals[i].begin = NOT_BEGUN;
        worker->readings[i] = (struct reading){each, each};
    }
    if (outermost)
        read_outermost(item, worker->readings);
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
    random_delay_us = options->random_delay_us;
    meter_choose(options->quantity);
    prepare_hand_overs();
    under_way = allocate(network.depth, sizeof *under_way);
    workers = allocate(network.item_count, sizeof *workers);
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct item *item = &network.items[i];
        workers[i] = (struct worker){.item = item, .delay_us = options->delay_us[i]};
        workers[i].random = (options->random_seed + 1) * 0x9E3779B97F4A7C15u + i; /* not 0, and not alike */
        prepare_readings(&workers[i], options);
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
