#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "generate.h"
#include "network.h"

/* Largest count of vectors, at most all float32: 32-bit processors have one vector less. */
#define MOST_VECTORS (SIZE_MAX > UINT32_MAX ? 1LL + UINT32_MAX : (long long)UINT32_MAX)

enum { OPTION_VERSION = 1, OPTION_VECTORS, OPTION_OUT, OPTION_DUMP, OPTION_BLOCK, OPTION_TIME, OPTION_WARMUP,
       OPTION_REPEAT, OPTION_TRACE, OPTION_DELAY, OPTION_PIN, OPTION_FIFO, OPTION_TABLES, OPTION_STAGE, OPTION_SWEEP,
       OPTION_RANDOM_DELAY, OPTION_DEVICES, OPTION_COUNT, OPTION_READINGS, OPTION_LOCK_MEMORY, OPTION_DMA_LATENCY,
       OPTION_TASK, OPTION_RANDOM_VECTORS, OPTION_PAIR_VECTORS, OPTION_RANDOM_BLOCK, OPTION_EXECUTIONS, OPTION_JITTER,
       OPTION_WINDOWS, OPTION_EVERY_SIZE };

/* Spelling of an option, and whether a value follows it as a separate argument. */
static const struct option {
    const char *name;
    bool has_value;
    int option;
} OPTIONS[] = {
    {"version", false, OPTION_VERSION}, {"vectors", true, OPTION_VECTORS}, {"out", true, OPTION_OUT},
    {"dump", true, OPTION_DUMP}, {"block", true, OPTION_BLOCK}, {"time", true, OPTION_TIME},
    {"warmup", true, OPTION_WARMUP}, {"repeat", true, OPTION_REPEAT}, {"trace", false, OPTION_TRACE},
    {"delay", true, OPTION_DELAY}, {"pin", true, OPTION_PIN}, {"fifo", true, OPTION_FIFO},
    {"tables", false, OPTION_TABLES}, {"stage", true, OPTION_STAGE}, {"sweep", true, OPTION_SWEEP},
    {"random-delay", true, OPTION_RANDOM_DELAY}, {"devices", false, OPTION_DEVICES}, {"count", true, OPTION_COUNT},
    {"readings", true, OPTION_READINGS}, {"lock-memory", false, OPTION_LOCK_MEMORY},
    {"dma-latency", true, OPTION_DMA_LATENCY}, {"task", true, OPTION_TASK},
    {"random-vectors", true, OPTION_RANDOM_VECTORS}, {"pair-vectors", true, OPTION_PAIR_VECTORS},
    {"random-block", true, OPTION_RANDOM_BLOCK}, {"executions", true, OPTION_EXECUTIONS},
    {"jitter-ns", true, OPTION_JITTER}, {"windows", true, OPTION_WINDOWS}, {"every-size", true, OPTION_EVERY_SIZE},
};

static long long parse_number(const char *option, const char *text, long long low, long long high)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high)
        fail(EXIT_USAGE, "--%s %s: expected a whole number from %lld to %lld", option, text, low, high);
    return value;
}

static int parse_choice(const char *option, const char *text, const char *const *choices, const char *listed)
{
    for (int i = 0; choices[i]; ++i)
        if (strcmp(text, choices[i]) == 0)
            return i;
    fail(EXIT_USAGE, "--%s %s: expected one of %s", option, text, listed);
}

static _Noreturn void fail_unknown_item(const char *text)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < network.item_count && used < sizeof names; ++i)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", network.items[i].name);
    fail(EXIT_USAGE, "--delay %s: expected one of %s", text, names);
}

/* ITEM:MICROSECONDS */
static void parse_delay(char *text, long *delay_us)
{
    char *colon = strchr(text, ':');
    if (!colon)
        fail(EXIT_USAGE, "--delay %s: expected ITEM:MICROSECONDS", text);
    *colon = '\0';
    for (size_t i = 0; i < network.item_count; ++i)
        if (strcmp(text, network.items[i].name) == 0) {
            delay_us[i] = (long)parse_number("delay", colon + 1, 0, 10000000);
            return;
        }
    fail_unknown_item(text);
}

/* NUMBER:NUMBER, such as COUNT:SEED */
static long long parse_pair(const char *option, char *text, const char *form, long long high, uint64_t *second)
{
    char *colon = strchr(text, ':');
    if (!colon)
        fail(EXIT_USAGE, "--%s %s: expected %s", option, text, form);
    *colon = '\0';
    *second = (uint64_t)parse_number(option, colon + 1, 0, INT_MAX);
    return parse_number(option, text, 1, high);
}

/* CORE,CORE,... one for each item */
static void parse_cores(char *text, int *core)
{
    size_t count = 0;
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ","), ++count)
        if (count < network.item_count)
            core[count] = (int)parse_number("pin", part, 0, 1023);
    if (count != network.item_count)
        fail(EXIT_USAGE, "--pin: expected %zu cores, one for each item", network.item_count);
}

/* EXECUTIONS:FIRST,FIRST,... */
static void parse_windows(char *text, struct options *options)
{
    char *numbers = strchr(text, ':');
    if (!numbers)
        fail(EXIT_USAGE, "--windows %s: expected EXECUTIONS:FIRST,...", text);
    *numbers++ = '\0';
    options->window = (size_t)parse_number("windows", text, 1, INT_MAX);
    for (char *part = strtok(numbers, ","); part; part = strtok(NULL, ",")) {
        if (options->window_count == MOST_WINDOWS)
            fail(EXIT_USAGE, "--windows: expected at most %d numbers", MOST_WINDOWS);
        options->window_first[options->window_count++] = (uint64_t)parse_number("windows", part, 0, LLONG_MAX);
    }
}

static struct options defaults(void)
{
    struct options options = {.dump = DUMP_ALL, .time = TIME_NONE, .block = network.block_capacity, .repeat = 1,
                              .dma_latency_us = -1};
    options.core = allocate(network.item_count, sizeof *options.core);
    options.delay_us = allocate(network.item_count, sizeof *options.delay_us);
    for (size_t i = 0; i < network.item_count; ++i)
        options.core[i] = -1;
    return options;
}

/* `value` is that of an option that has one. */
static void apply(struct options *options, int option, char *value)
{
    static const char *const DUMPS[] = {"all", "last", "none", NULL};
    static const char *const TIMES[] = {"none", "network", "item", "layer", NULL};
    static const char *const QUANTITIES[] = {"time", "instructions", "cycles", "cpu", "user", "system", NULL};
    switch (option) {
    case OPTION_VERSION: options->version = true; break;
    case OPTION_DEVICES: options->devices = true; break;
    case OPTION_VECTORS: options->vectors = value; break;
    case OPTION_OUT: options->out = value; break;
    case OPTION_DUMP: options->dump = (enum dump)parse_choice("dump", value, DUMPS, "all, last, none"); break;
    case OPTION_TIME:
        options->time = (enum time_scope)parse_choice("time", value, TIMES, "none, network, item, layer");
        break;
    case OPTION_BLOCK:
        options->block = (size_t)parse_number("block", value, 1, (long long)network.block_capacity);
        break;
    case OPTION_WARMUP: options->warmup = (size_t)parse_number("warmup", value, 0, INT_MAX); break;
    case OPTION_REPEAT: options->repeat = (size_t)parse_number("repeat", value, 1, INT_MAX); break;
    case OPTION_COUNT:
        options->quantity = (enum quantity)parse_choice("count", value, QUANTITIES,
                                                        "time, instructions, cycles, cpu, user, system");
        break;
    case OPTION_READINGS: options->readings = (size_t)parse_number("readings", value, 1, 100000000); break;
    case OPTION_LOCK_MEMORY: options->lock_memory = true; break;
    case OPTION_DMA_LATENCY: options->dma_latency_us = (long)parse_number("dma-latency", value, 0, 1000000); break;
    case OPTION_TRACE: options->trace = true; break;
    case OPTION_DELAY: parse_delay(value, options->delay_us); break;
    case OPTION_RANDOM_DELAY:
        options->random_delay_us = (long)parse_pair("random-delay", value, "MICROSECONDS:SEED", 1000000, &options->random_seed);
        break;
    case OPTION_JITTER:
        options->jitter_ns = (long)parse_pair("jitter-ns", value, "NANOSECONDS:SEED", 1000000000, &options->random_seed);
        break;
    case OPTION_TASK: options->task = value; break;
    case OPTION_RANDOM_VECTORS:
        options->generator = GENERATE_RANDOM;
        options->generated = (size_t)parse_pair("random-vectors", value, "COUNT:SEED", MOST_VECTORS, &options->generator_seed);
        break;
    case OPTION_PAIR_VECTORS:
        options->generator = GENERATE_PAIRS;
        options->generated = PAIR_VECTORS;
        options->generator_seed = (uint64_t)parse_number("pair-vectors", value, 0, PAIR_ARRANGEMENTS - 1);
        break;
    case OPTION_RANDOM_BLOCK:
        options->random_block = true;
        options->block_seed = (uint64_t)parse_number("random-block", value, 0, INT_MAX);
        break;
    case OPTION_EXECUTIONS: options->executions = (size_t)parse_number("executions", value, 1, INT_MAX); break;
    case OPTION_WINDOWS: parse_windows(value, options); break;
    case OPTION_EVERY_SIZE:
        options->every_size = (size_t)parse_pair("every-size", value, "N:VECTORS", (long long)network.block_capacity,
                                                 &options->size_vectors);
        break;
    case OPTION_PIN: parse_cores(value, options->core); break;
    case OPTION_FIFO: options->fifo = (int)parse_number("fifo", value, 1, 99); break;
    case OPTION_TABLES: options->tables = true; break;
    case OPTION_STAGE: options->stage = value; break;
    case OPTION_SWEEP: options->sweep = (size_t)parse_number("sweep", value, 1, MOST_VECTORS); break;
    default:
        fail(EXIT_USAGE, "usage: inference --vectors FILE.npy --out FOLDER [--dump all|last|none] [--block N] "
                         "[--time network|item|layer [--count instructions|cycles|cpu|user|system]] [--warmup N] [--repeat N] [--trace] "
                         "[--delay ITEM:MICROSECONDS] [--random-delay MICROSECONDS:SEED] [--pin CORE,...] "
                         "[--fifo PRIORITY] [--lock-memory] [--dma-latency MICROSECONDS] [--random-block SEED] "
                         "[--executions N [--windows EXECUTIONS:FIRST,...]] "
                         "[--jitter-ns NANOSECONDS:SEED] [--stage NAME [--sweep N] | --task NAME [--every-size N:VECTORS] [--tables]] | "
                         "(--stage NAME | --task NAME) (--random-vectors COUNT:SEED | --pair-vectors 0|1) --out FOLDER | "
                         "--readings N --out FOLDER | --tables --out FOLDER | --devices | --version");
    }
}

static bool is_complete(const struct options *options)
{
    const bool probes = options->stage || options->task;
    const bool given = options->vectors || (probes && options->generated);
    return options->version || options->devices ||
           (options->out && (options->readings || given || (options->tables && !probes)));
}

static bool is_meaningless(const struct options *options)
{
    const bool probes = options->stage || options->task;
    const bool times = options->time != TIME_NONE || options->trace;
    return (options->sweep && (!options->stage || options->generated)) || (options->stage && options->task) ||
           (options->stage && options->executions) || (options->generated && (!probes || options->vectors)) ||
           (options->trace && (options->quantity != READ_TIME || options->random_block)) ||
           (options->window && !options->executions) || (options->every_size && !options->task) ||
           (options->executions && (times || options->warmup || options->repeat != 1));
}

static void apply_word(struct options *options, const char *word, char ***next)
{
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; ++i)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, OPTIONS[i].name) == 0 && (!OPTIONS[i].has_value || **next)) {
            apply(options, OPTIONS[i].option, OPTIONS[i].has_value ? *(*next)++ : NULL);
            return;
        }
    apply(options, '?', NULL);
}

struct options parse_options(int argc, char **argv)
{
    struct options options = defaults();
    for (char **next = argv + (argc > 0); *next;)
        apply_word(&options, *next++, &next);
    if (!is_complete(&options) || is_meaningless(&options))
        apply(&options, '?', NULL);
    return options;
}
