#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "network.h"

enum { OPTION_VERSION = 1, OPTION_VECTORS, OPTION_OUT, OPTION_DUMP, OPTION_BLOCK, OPTION_TIME, OPTION_WARMUP,
       OPTION_REPEAT, OPTION_TRACE, OPTION_DELAY, OPTION_PIN, OPTION_FIFO, OPTION_TABLES, OPTION_STAGE, OPTION_SWEEP,
       OPTION_RANDOM_DELAY, OPTION_DEVICES, OPTION_COUNT, OPTION_READINGS, OPTION_LOCK_MEMORY, OPTION_DMA_LATENCY };

static const struct option LONG_OPTIONS[] = {
    {"version", no_argument, NULL, OPTION_VERSION},     {"vectors", required_argument, NULL, OPTION_VECTORS},
    {"out", required_argument, NULL, OPTION_OUT},       {"dump", required_argument, NULL, OPTION_DUMP},
    {"block", required_argument, NULL, OPTION_BLOCK},   {"time", required_argument, NULL, OPTION_TIME},
    {"warmup", required_argument, NULL, OPTION_WARMUP}, {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"trace", no_argument, NULL, OPTION_TRACE},         {"delay", required_argument, NULL, OPTION_DELAY},
    {"pin", required_argument, NULL, OPTION_PIN},       {"fifo", required_argument, NULL, OPTION_FIFO},
    {"tables", no_argument, NULL, OPTION_TABLES},       {"stage", required_argument, NULL, OPTION_STAGE},
    {"sweep", required_argument, NULL, OPTION_SWEEP},   {"random-delay", required_argument, NULL, OPTION_RANDOM_DELAY},
    {"devices", no_argument, NULL, OPTION_DEVICES},     {"count", required_argument, NULL, OPTION_COUNT},
    {"readings", required_argument, NULL, OPTION_READINGS}, {"lock-memory", no_argument, NULL, OPTION_LOCK_MEMORY},
    {"dma-latency", required_argument, NULL, OPTION_DMA_LATENCY},
    {NULL, 0, NULL, 0},
};

static long parse_number(const char *option, const char *text, long low, long high)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high)
        fail(EXIT_USAGE, "--%s %s: expected a whole number from %ld to %ld", option, text, low, high);
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
            delay_us[i] = parse_number("delay", colon + 1, 0, 1000000);
            return;
        }
    fail_unknown_item(text);
}

/* MICROSECONDS:SEED */
static void parse_random_delay(char *text, struct options *options)
{
    char *colon = strchr(text, ':');
    if (!colon)
        fail(EXIT_USAGE, "--random-delay %s: expected MICROSECONDS:SEED", text);
    *colon = '\0';
    options->random_delay_us = parse_number("random-delay", text, 1, 1000000);
    options->random_seed = (uint64_t)parse_number("random-delay", colon + 1, 0, INT_MAX);
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

static void apply(struct options *options, int option)
{
    static const char *const DUMPS[] = {"all", "last", "none", NULL};
    static const char *const TIMES[] = {"none", "network", "item", "layer", NULL};
    static const char *const QUANTITIES[] = {"time", "instructions", "cycles", NULL};
    switch (option) {
    case OPTION_VERSION: options->version = true; break;
    case OPTION_DEVICES: options->devices = true; break;
    case OPTION_VECTORS: options->vectors = optarg; break;
    case OPTION_OUT: options->out = optarg; break;
    case OPTION_DUMP: options->dump = (enum dump)parse_choice("dump", optarg, DUMPS, "all, last, none"); break;
    case OPTION_TIME:
        options->time = (enum time_scope)parse_choice("time", optarg, TIMES, "none, network, item, layer");
        break;
    case OPTION_BLOCK:
        options->block = (size_t)parse_number("block", optarg, 1, (long)network.block_capacity);
        break;
    case OPTION_WARMUP: options->warmup = (size_t)parse_number("warmup", optarg, 0, INT_MAX); break;
    case OPTION_REPEAT: options->repeat = (size_t)parse_number("repeat", optarg, 1, INT_MAX); break;
    case OPTION_COUNT:
        options->quantity = (enum quantity)parse_choice("count", optarg, QUANTITIES, "time, instructions, cycles");
        break;
    case OPTION_READINGS: options->readings = (size_t)parse_number("readings", optarg, 1, 100000000); break;
    case OPTION_LOCK_MEMORY: options->lock_memory = true; break;
    case OPTION_DMA_LATENCY: options->dma_latency_us = parse_number("dma-latency", optarg, 0, 1000000); break;
    case OPTION_TRACE: options->trace = true; break;
    case OPTION_DELAY: parse_delay(optarg, options->delay_us); break;
    case OPTION_RANDOM_DELAY: parse_random_delay(optarg, options); break;
    case OPTION_PIN: parse_cores(optarg, options->core); break;
    case OPTION_FIFO: options->fifo = (int)parse_number("fifo", optarg, 1, 99); break;
    case OPTION_TABLES: options->tables = true; break;
    case OPTION_STAGE: options->stage = optarg; break;
    case OPTION_SWEEP: options->sweep = (size_t)parse_number("sweep", optarg, 1, 1L << 32); break;
    default:
        fail(EXIT_USAGE, "usage: inference --vectors FILE.npy --out FOLDER [--dump all|last|none] [--block N] "
                         "[--time network|item|layer [--count instructions|cycles]] [--warmup N] [--repeat N] [--trace] "
                         "[--delay ITEM:MICROSECONDS] [--random-delay MICROSECONDS:SEED] [--pin CORE,...] "
                         "[--fifo PRIORITY] [--lock-memory] [--dma-latency MICROSECONDS] [--stage NAME [--sweep N]] | "
                         "--readings N --out FOLDER | --tables --out FOLDER | --devices | --version");
    }
}

struct options parse_options(int argc, char **argv)
{
    struct options options = defaults();
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "", LONG_OPTIONS, NULL)) != -1;)
        apply(&options, option);
    const bool complete = options.version || options.devices ||
                          (options.out && (options.tables || options.readings || options.vectors));
    const bool meaningless = (options.sweep && !options.stage) || (options.trace && options.quantity != READ_TIME);
    if (optind != argc || !complete || meaningless)
        apply(&options, '?');
    return options;
}
