#define _GNU_SOURCE
#include "realtime.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fail.h"

static bool hold_dma_latency(int32_t latency_us)
{
    const int file = open("/dev/cpu_dma_latency", O_WRONLY); /* it holds as long as the file is open */
    return file >= 0 && write(file, &latency_us, sizeof latency_us) == sizeof latency_us;
}

struct steadiness steady_begin(const struct options *options)
{
    struct steadiness granted = {false, false};
    if (options->lock_memory) {
        granted.memory_locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
        if (!granted.memory_locked)
            perror("mlockall");
    }
    if (options->dma_latency_us >= 0) {
        granted.dma_latency_held = hold_dma_latency((int32_t)options->dma_latency_us);
        if (!granted.dma_latency_held)
            perror("/dev/cpu_dma_latency");
    }
    return granted;
}

struct disturbances steady_disturbances(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct disturbances){usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_minflt, usage.ru_majflt};
}

long steady_peak_memory_kib(void)
{
    /* ru_maxrss would contain what the process had before this program took its place */
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long peak_kib = -1;
    while (file && peak_kib < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld kB", &peak_kib) != 1)
            peak_kib = -1;
    if (file)
        fclose(file);
    return peak_kib;
}

void steady_move(int core, int fifo)
{
    const struct sched_param parameter = {.sched_priority = fifo};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(core < 0 ? 0 : core), &set);
    if (core >= 0 && sched_setaffinity(0, sizeof set, &set) != 0)
        fail_errno(EXIT_SYSTEM, "cannot move to the core of --pin for", "readings");
    if (fifo > 0 && sched_setscheduler(0, SCHED_FIFO, &parameter) != 0)
        fail_errno(EXIT_SYSTEM, "cannot take the priority of --fifo for", "readings");
}
