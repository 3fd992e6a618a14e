/* Kernels for the tests of the double of XRT.  `layer` says what first_kernel does wrong. */
#include <unistd.h>

#include "registry.hpp"

namespace {

enum { WHOLE, ACCUMULATE, FINISH, TABLES, IDENTITY };

struct arguments {
    const int32_t *given;
    int32_t *made;
    uint32_t vectors, everything, part, layer, given_width, made_width;
};

arguments of(const uint64_t *values)
{
    return {reinterpret_cast<const int32_t *>(values[0]), reinterpret_cast<int32_t *>(values[1]), (uint32_t)values[2],
            (uint32_t)values[3], (uint32_t)values[4], (uint32_t)values[5], (uint32_t)values[6], (uint32_t)values[7]};
}

volatile int32_t seen;
unsigned calls; /* as a kernel's own memory: there is one circuit, which works on one run after the other */
volatile int32_t *volatile nowhere = reinterpret_cast<volatile int32_t *>(8);

void go_wrong(const arguments &call)
{
    const size_t given = call.vectors * call.given_width, made = call.vectors * call.made_width;
    switch (call.layer) {
    case 1: seen = call.given[given]; break;
    case 2: seen = call.given[given + 5000]; break;
    case 3: const_cast<int32_t *>(call.given)[1] = 0; break;
    case 4: call.made[made] = 0; break;
    case 5: call.made[-1] = 0; break;
    case 6: seen = call.given[-5000]; break;
    case 7: usleep(200000); break;
    case 8: seen = *nowhere; break;
    }
}

void first_kernel(const uint64_t *values)
{
    const arguments call = of(values);
    ++calls;
    go_wrong(call);
    if (call.part == IDENTITY)
        for (int32_t i = 0; i < 8; ++i)
            call.made[i] = i;
    else
        for (size_t i = 0; i < call.vectors * call.given_width; ++i)
            call.made[i] = 2 * call.given[i] + (int32_t)call.part;
}

void second_kernel(const uint64_t *values)
{
    const arguments call = of(values);
    for (size_t i = 0; i < call.vectors * call.given_width; ++i)
        call.made[i] = -call.given[i];
}

} // namespace

extern const struct simulated_kernel simulated_kernels[] = {{"first_kernel", first_kernel, 8},
                                                            {"second_kernel", second_kernel, 8}};
extern const size_t simulated_kernel_count = 2;
