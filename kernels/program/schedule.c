#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "fail.h"
#include "fp_environment.h"
#include "random.h"

enum {
    SPINS = 1000,           /* of a reader, before it lets others have its core */
    MEETING_SPINS = 200000, /* of an item that waits for the others to be shifted against it */
};

struct worker {
    const struct item *item;
    pthread_t thread;
    long delay_us;
    struct random random; /* of its random delays */
    struct fp_values fp;
    struct reading *readings;
    struct interval *intervals;
};

/* Selects readings before a step and after it. */
struct reading {
    bool begin, end;
};

/* Number of executions for which a flag was set; each in its own cache line. */
struct flag {
    _Atomic uint64_t raised;
    char rest[64 - sizeof(_Atomic uint64_t)];
};

/* State shared by all threads.  The main thread writes it before it releases the items; writers also set `flags`. */
static struct {
    struct worker *workers;
    pthread_barrier_t *barriers;          /* of the hand-overs, or */
    struct flag *flags;                   /* as the plan says */
    struct flag *meetings;                /* with --jitter-ns: how many have left each barrier, `released` the last */
    pthread_barrier_t released, finished; /* crossed by all items and the main thread */
    struct execution *under_way;          /* (depth) */
    uint64_t tick, ticks;                 /* the current one, and how many have begun */
    bool stopping;
    struct call {
        size_t item;
        void (*function)(void *argument); /* NULL: the items take their steps */
        void *argument;
    } call;
    long random_delay_us, jitter_ns; /* constant once the threads run */
} schedule;

static void sleep_us(long duration_us)
{
    const struct timespec duration = {duration_us / 1000000, duration_us % 1000000 * 1000};
    nanosleep(&duration, NULL);
}

static void delay_step(struct worker *worker, const struct step *step)
{
    if (worker->delay_us && step->kind == STEP_TASK)
        sleep_us(worker->delay_us);
    if (schedule.random_delay_us)
        sleep_us((long)random_up_to(&worker->random, (uint64_t)schedule.random_delay_us));
}

/* Wait without sleep until so many have come here, so that all of them run when they go on.
 *
 * Threads that a barrier wakes come so far apart that their tasks would seldom overlap.  Each caller has just left a
 * barrier with the others: what they know of each other's memory stays the same. */
static void meet_spinning(struct flag *meeting, uint64_t expected)
{
    if (schedule.jitter_ns == 0)
        return;
    atomic_fetch_add_explicit(&meeting->raised, 1, memory_order_relaxed);
    for (unsigned spins = 0; atomic_load_explicit(&meeting->raised, memory_order_relaxed) < expected; ++spins)
        if (spins >= MEETING_SPINS)
            sched_yield();
}

static void meet(size_t hand_over, uint64_t execution)
{
    pthread_barrier_wait(&schedule.barriers[hand_over]);
    meet_spinning(&schedule.meetings[hand_over], (execution + 1) * network.hand_overs[hand_over].parties);
}

/* Spins, because a thread that sleeps lets the others finish their tasks before it begins its own. */
static void spin(struct worker *worker)
{
    if (schedule.jitter_ns == 0)
        return;
    const uint64_t until_ns = clock_ns(clock_read()) + random_up_to(&worker->random, (uint64_t)schedule.jitter_ns);
    while (clock_ns(clock_read()) < until_ns)
        continue;
}

/* Return when the flag has been raised for this execution: what its writer did before is visible then. */
static ONE_CODE void wait_for_flag(const struct flag *flag, uint64_t execution)
{
    for (unsigned spins = 0; atomic_load_explicit(&flag->raised, memory_order_acquire) <= execution; ++spins)
        if (spins >= SPINS)
            sched_yield();
}

/* Raise the flag for this execution, after all that its writer did before. */
static ONE_CODE void raise_flag(struct flag *flag, uint64_t execution)
{
    atomic_store_explicit(&flag->raised, execution + 1, memory_order_release);
}

static void run_step(const struct step *step, struct execution execution)
{
    switch (step->kind) {
    case STEP_TASK: network.tasks[step->index].forward(execution.vectors, execution.index); break;
    case STEP_MEET: meet(step->index, execution.index); break;
    case STEP_RAISE: raise_flag(&schedule.flags[step->index], execution.index); break;
    case STEP_WAIT: wait_for_flag(&schedule.flags[step->index], execution.index); break;
    }
}

/* Return the floating-point environment of this thread; exit with a message if results would differ with it. */
static uint64_t standard_fp_environment(const struct worker *worker)
{
    const uint64_t value = fp_environment_read();
    if (!fp_environment_is_standard(value))
        fail(EXIT_SYSTEM,
             "the thread of item %s computes with " FP_REGISTER " = %#" PRIx64 ", which does not round to nearest even "
             "or does not keep subnormal numbers: find the code or library that sets this register",
             worker->item->name, value);
    return value;
}

static void run_steps(struct worker *worker)
{
    meet_spinning(&schedule.meetings[network.hand_over_count], schedule.ticks * network.item_count);
    for (size_t i = 0; i < worker->item->step_count; ++i) {
        const struct step *step = &worker->item->steps[i];
        const struct execution execution = schedule_execution(schedule_stage(step));
        if (execution.vectors == 0)
            continue;
        const struct reading reading = worker->readings[i];
        spin(worker);
        if (reading.begin)
            worker->intervals[i].begin = meter_read();
        delay_step(worker, step);
        run_step(step, execution);
        if (reading.end)
            worker->intervals[i].end = meter_read();
    }
    const size_t vectors = schedule_execution(0).vectors;
    if (worker->item->finish && vectors)
        worker->item->finish(vectors);
}

static void call_or_run_steps(struct worker *worker)
{
    const struct call *call = &schedule.call;
    if (!call->function)
        run_steps(worker);
    else if (worker == &schedule.workers[call->item])
        call->function(call->argument);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    meter_open();
    worker->fp.before = standard_fp_environment(worker);
    for (;;) {
        pthread_barrier_wait(&schedule.released);
        worker->fp.after = standard_fp_environment(worker);
        if (schedule.stopping)
            return NULL;
        call_or_run_steps(worker);
        pthread_barrier_wait(&schedule.finished);
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
    const bool each = !outermost && (options->time != TIME_NONE || options->trace || options->jitter_ns);
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
    require(pthread_barrier_init(&schedule.released, NULL, everyone), "cannot create barrier", "released");
    require(pthread_barrier_init(&schedule.finished, NULL, everyone), "cannot create barrier", "finished");
    schedule.flags = allocate(network.hand_over_count, sizeof *schedule.flags);
    schedule.meetings = allocate(network.hand_over_count + 1, sizeof *schedule.meetings);
    schedule.barriers = allocate(network.hand_over_count, sizeof *schedule.barriers);
    for (size_t i = 0; i < network.hand_over_count; ++i)
        require(pthread_barrier_init(&schedule.barriers[i], NULL, network.hand_overs[i].parties),
                "cannot create barrier", network.hand_overs[i].name);
}

void schedule_start(const struct options *options)
{
    schedule.random_delay_us = options->random_delay_us;
    schedule.jitter_ns = options->jitter_ns;
    meter_choose(options->quantity);
    prepare_hand_overs();
    schedule.under_way = allocate(network.depth, sizeof *schedule.under_way);
    schedule.workers = allocate(network.item_count, sizeof *schedule.workers);
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct item *item = &network.items[i];
        schedule.workers[i] = (struct worker){.item = item, .delay_us = options->delay_us[i]};
        schedule.workers[i].random = random_from(options->random_seed, i);
        prepare_readings(&schedule.workers[i], options);
        item->init(options);
    }
    for (size_t i = 0; i < network.item_count; ++i)
        start_worker(&schedule.workers[i], options->core[i], options->fifo);
}

/* One phase of all items. */
static void release_all(void)
{
    pthread_barrier_wait(&schedule.released);
    pthread_barrier_wait(&schedule.finished);
}

void schedule_run_tick(size_t vectors)
{
    schedule.tick = schedule.ticks++;
    schedule.under_way[schedule.tick % network.depth] = (struct execution){schedule.tick, vectors};
    release_all();
}

void schedule_continue_from(uint64_t execution)
{
    schedule.ticks = execution;
    memset(schedule.under_way, 0, network.depth * sizeof *schedule.under_way);
    for (size_t i = 0; i <= network.hand_over_count; ++i) {
        const size_t parties = i < network.hand_over_count ? network.hand_overs[i].parties : network.item_count;
        atomic_store_explicit(&schedule.meetings[i].raised, execution * parties, memory_order_relaxed);
    }
}

void schedule_call(size_t item, void (*function)(void *argument), void *argument)
{
    schedule.call = (struct call){item, function, argument};
    release_all();
    schedule.call = (struct call){0};
}

struct execution schedule_execution(size_t stage)
{
    return schedule.under_way[(schedule.tick + network.depth - stage) % network.depth];
}

size_t schedule_stage(const struct step *step)
{
    return step->kind == STEP_TASK ? network.tasks[step->index].stage : 0;
}

const struct interval *schedule_intervals(size_t item)
{
    return schedule.workers[item].intervals;
}

/* Returns whether the times of any two tasks, one of each item, overlap. */
static bool items_overlapped(size_t one, size_t other)
{
    const struct item *items = network.items;
    const struct interval *of_one = schedule_intervals(one), *of_other = schedule_intervals(other);
    for (size_t i = 0; i < items[one].step_count; ++i)
        for (size_t j = 0; j < items[other].step_count; ++j)
            if (items[one].steps[i].kind == STEP_TASK && items[other].steps[j].kind == STEP_TASK &&
                of_one[i].begin < of_other[j].end && of_other[j].begin < of_one[i].end)
                return true;
    return false;
}

bool schedule_overlapped(void)
{
    for (size_t one = 0; one < network.item_count; ++one)
        for (size_t other = 0; other < one; ++other)
            if (items_overlapped(one, other))
                return true;
    return false;
}

struct fp_values schedule_fp_values(size_t item)
{
    return schedule.workers[item].fp;
}

void schedule_stop(void)
{
    schedule.stopping = true;
    pthread_barrier_wait(&schedule.released);
    for (size_t i = 0; i < network.item_count; ++i) {
        pthread_join(schedule.workers[i].thread, NULL);
        network.items[i].close();
    }
}
