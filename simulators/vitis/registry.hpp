/* The kernels that the double of XRT finds in the fabric: generated beside them, as the build of the bundle ends. */
#ifndef REGISTRY_HPP
#define REGISTRY_HPP

#include <stddef.h>
#include <stdint.h>

struct simulated_kernel {
    const char *name;
    /* Calls the kernel; of every argument its value, of a buffer the address. */
    void (*call)(const uint64_t *arguments);
    size_t argument_count;
};

extern const struct simulated_kernel simulated_kernels[];
extern const size_t simulated_kernel_count;

#endif
