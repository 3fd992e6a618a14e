/* The static schedule on one processor without threads: the items take turns.
 *
 * An item walks through its steps until it has to wait, for the others at a barrier or for a flag; then the next one
 * goes on.  The order of the steps is the same in every execution.
 */
#include "schedule.h"

#include <inttypes.h>

#include "clock.h"
#include "fail.h"
#include "fp_environment.h"
#include "random.h"

struct worker {
    const struct item *item;
    size_t next;  /* step of this tick */
    bool waits;   /* at its next step, which it has begun: it has come to the barrier */
    long delay_us;
    struct random random; /* of its random delays */
    struct fp_values fp;
    struct interval *intervals;
};

static struct {
    struct worker *workers;
    uint64_t *raised;  /* of each hand-over: executions for which its flag was raised */
    uint64_t *arrived; /* or: how often an item has come to its barrier */
    struct execution *under_way; /* (depth) */
    uint64_t tick, ticks;
    bool timed;
    long random_delay_us, jitter_ns;
} schedule;

/* Return the floating-point environment; exit with a message if results would differ with it. */
static uint64_t standard_fp_environment(const struct worker *worker)
{
    const uint64_t value = fp_environment_read();
    if (!fp_environment_is_standard(value))
        fail(EXIT_SYSTEM,
             "item %s computes with " FP_REGISTER " = %#" PRIx64 ", which does not round to nearest even "
             "or does not keep subnormal numbers: find the code that sets this register",
             worker->item->name, value);
    return value;
}

void schedule_start(const struct options *options)
{
    if (options->fifo)
        fail(EXIT_USAGE, "--fifo: there are no threads without an operating system");
    meter_choose(options->quantity);
    schedule.random_delay_us = options->random_delay_us;
    schedule.jitter_ns = options->jitter_ns;
    schedule.timed = options->time != TIME_NONE || options->trace;
    schedule.raised = allocate(network.hand_over_count, sizeof *schedule.raised);
    schedule.arrived = allocate(network.hand_over_count, sizeof *schedule.arrived);
    schedule.under_way = allocate(network.depth, sizeof *schedule.under_way);
    schedule.workers = allocate(network.item_count, sizeof *schedule.workers);
    for (size_t i = 0; i < network.item_count; ++i) {
        struct worker *worker = &schedule.workers[i];
        worker->item = &network.items[i];
        if (options->core[i] > 0)
            fail(EXIT_USAGE, "--pin: item %s runs on core 0, the only one", worker->item->name);
        worker->delay_us = options->delay_us[i];
        worker->random = random_from(options->random_seed, i);
        worker->intervals = allocate(worker->item->step_count, sizeof *worker->intervals);
        for (size_t s = 0; s < worker->item->step_count; ++s)
            worker->intervals[s].begin = NOT_BEGUN;
        worker->item->init(options);
        worker->fp.before = standard_fp_environment(worker);
    }
}

/* Returns whether all parties have reached the barrier of this step; the first call for a step counts the item. */
static bool has_met(struct worker *worker, const struct step *step, uint64_t execution)
{
    uint64_t *arrived = &schedule.arrived[step->index];
    *arrived += !worker->waits;
    return *arrived >= (execution + 1) * network.hand_overs[step->index].parties;
}

/* The delays that move threads against each other only lengthen the execution here. */
static void delay_step(struct worker *worker, const struct step *step)
{
    uint64_t delay_ns = step->kind == STEP_TASK ? (uint64_t)worker->delay_us * 1000 : 0;
    if (schedule.random_delay_us)
        delay_ns += random_up_to(&worker->random, (uint64_t)schedule.random_delay_us) * 1000;
    if (schedule.jitter_ns)
        delay_ns += random_up_to(&worker->random, (uint64_t)schedule.jitter_ns);
    for (const uint64_t begin_ns = delay_ns ? clock_read() : 0; delay_ns && clock_read() - begin_ns < delay_ns;)
        continue;
}

/* Take a step; return whether the item can go on. */
static bool take_step(struct worker *worker, const struct step *step, struct execution execution)
{
    switch (step->kind) {
    case STEP_TASK: network.tasks[step->index].forward(execution.vectors, execution.index); return true;
    case STEP_MEET: return has_met(worker, step, execution.index);
    case STEP_RAISE: schedule.raised[step->index] = execution.index + 1; return true;
    case STEP_WAIT: return schedule.raised[step->index] > execution.index;
    }
    return false;
}

/* Take the steps of an item until it has to wait; return whether it has taken one. */
static bool advance(struct worker *worker)
{
    const size_t first = worker->next;
    const bool waited = worker->waits;
    for (; worker->next < worker->item->step_count; ++worker->next) {
        const struct step *step = &worker->item->steps[worker->next];
        const struct execution execution = schedule_execution(schedule_stage(step));
        if (execution.vectors == 0)
            continue;
        struct interval *interval = &worker->intervals[worker->next];
        if (!worker->waits) {
            delay_step(worker, step);
            interval->begin = schedule.timed ? meter_read() : NOT_BEGUN;
        }
        worker->waits = !take_step(worker, step, execution);
        if (worker->waits)
            break;
        interval->end = schedule.timed ? meter_read() : 0;
    }
    return worker->next != first || worker->waits != waited;
}

void schedule_run_tick(size_t vectors)
{
    bool advanced = true, finished = false;
    schedule.tick = schedule.ticks++;
    schedule.under_way[schedule.tick % network.depth] = (struct execution){schedule.tick, vectors};
    for (size_t i = 0; i < network.item_count; ++i)
        schedule.workers[i].next = 0;
    while (!finished && advanced) {
        advanced = false;
        finished = true;
        for (size_t i = 0; i < network.item_count; ++i) {
            advanced |= advance(&schedule.workers[i]);
            finished &= schedule.workers[i].next == network.items[i].step_count;
        }
    }
    if (!finished)
        fail(EXIT_SYSTEM, "execution %" PRIu64 ": every item waits for another", schedule.tick);
    for (size_t i = 0; i < network.item_count; ++i)
        schedule.workers[i].fp.after = standard_fp_environment(&schedule.workers[i]);
}

void schedule_continue_from(uint64_t execution)
{
    schedule.ticks = execution;
    for (size_t i = 0; i < network.depth; ++i)
        schedule.under_way[i] = (struct execution){0};
    for (size_t i = 0; i < network.hand_over_count; ++i)
        schedule.arrived[i] = execution * network.hand_overs[i].parties;
}

void schedule_call(size_t item, void (*function)(void *argument), void *argument)
{
    function(argument);
    schedule.workers[item].fp.after = standard_fp_environment(&schedule.workers[item]);
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

bool schedule_overlapped(void)
{
    return false;
}

struct fp_values schedule_fp_values(size_t item)
{
    return schedule.workers[item].fp;
}

void schedule_stop(void)
{
    for (size_t i = 0; i < network.item_count; ++i) {
        schedule.workers[i].fp.after = standard_fp_environment(&schedule.workers[i]);
        network.items[i].close();
    }
}
