/* Registry of the stand-in for the driver: every kernel of the generated code and every table, by name.
 *
 *     #include "cuda_on_cpu.h"
 *     #include "network.cu"
 *     const simulated_kernel simulated_kernels[] = {SIMULATED_KERNEL(dense_forward, true), ...};
 *     const size_t simulated_kernel_count = SIMULATED_COUNT(simulated_kernels);
 *     const simulated_table simulated_tables[] = {SIMULATED_TABLE(dense_weights), ...};
 *     const size_t simulated_table_count = SIMULATED_COUNT(simulated_tables);
 */
#ifndef REGISTRY_H
#define REGISTRY_H

#include <stddef.h>

#include "block.h"

struct simulated_parameter {
    size_t bytes;
    bool is_pointer, writes; /* a pointer to what is not constant may write */
};

struct simulated_kernel {
    const char *name;
    bool barriers; /* whether its threads wait for each other */
    const simulated_parameter *parameters;
    size_t parameter_count;
    void (*thread)(void *const *parameters); /* runs the thread at threadIdx */
    void (*block)(void *const *parameters);  /* runs all threads of the block, one after the other */
};

struct simulated_table {
    const char *name;
    void *address;
    size_t bytes;
};

extern SIMULATED_HIDDEN const simulated_kernel simulated_kernels[];
extern SIMULATED_HIDDEN const size_t simulated_kernel_count;
extern SIMULATED_HIDDEN const simulated_table simulated_tables[];
extern SIMULATED_HIDDEN const size_t simulated_table_count;

#define SIMULATED_KERNEL(kernel, has_barriers)                                                                  \
    {                                                                                                           \
        #kernel, has_barriers, simulated_call<&kernel>::PARAMETERS, simulated_call<&kernel>::COUNT,             \
            simulated_call<&kernel>::thread, simulated_call<&kernel>::block                                     \
    }
#define SIMULATED_TABLE(table) {#table, (void *)&table, sizeof table}
#define SIMULATED_COUNT(list) (sizeof(list) / sizeof *(list))

template <typename T> struct simulated_type {
    static constexpr simulated_parameter PARAMETER = {sizeof(T), false, false};
};

template <typename T> struct simulated_type<T *> {
    static constexpr simulated_parameter PARAMETER = {sizeof(T *), true, true};
};

template <typename T> struct simulated_type<const T *> {
    static constexpr simulated_parameter PARAMETER = {sizeof(T *), true, false};
};

/* simulated_numbers_to<3>::Type is simulated_numbers<0, 1, 2>. */
template <size_t... I> struct simulated_numbers {
};

template <size_t COUNT, size_t... I> struct simulated_numbers_to : simulated_numbers_to<COUNT - 1, COUNT - 1, I...> {
};

template <size_t... I> struct simulated_numbers_to<0, I...> {
    using Type = simulated_numbers<I...>;
};

/* A kernel, called with parameters that are given by their addresses, as cuLaunchKernel does. */
template <auto KERNEL> struct simulated_call;

template <typename... P, void (*KERNEL)(P...)> struct simulated_call<KERNEL> {
    static constexpr size_t COUNT = sizeof...(P);
    static constexpr simulated_parameter PARAMETERS[COUNT + 1] = {simulated_type<P>::PARAMETER..., {0, false, false}};

    template <size_t... I> static void call(void *const *parameters, simulated_numbers<I...>)
    {
        KERNEL(*(P *)parameters[I]...);
    }

    static void thread(void *const *parameters)
    {
        call(parameters, typename simulated_numbers_to<COUNT>::Type());
    }

    static void block(void *const *parameters)
    {
        const uint3 threads = blockDim;
        for (threadIdx.z = 0; threadIdx.z < threads.z; ++threadIdx.z)
            for (threadIdx.y = 0; threadIdx.y < threads.y; ++threadIdx.y)
                for (threadIdx.x = 0; threadIdx.x < threads.x; ++threadIdx.x)
                    thread(parameters);
    }
};

#endif
