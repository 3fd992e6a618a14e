#include "realtime.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
