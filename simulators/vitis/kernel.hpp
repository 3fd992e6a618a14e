/* A kernel of the loaded xclbin, and its one unit in the fabric. */
#ifndef KERNEL_HPP
#define KERNEL_HPP

#include <memory>
#include <mutex>

#include "fabric.hpp"
#include "registry.hpp"
#include "xrt/xrt_kernel.h"

namespace xrt_double {

/* The circuit: it works on one run after the other. */
struct unit {
    const simulated_kernel *simulated;
    std::mutex working;
    bool hangs = false; /* and never works again */
};

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

class kernel_impl {
public:
    xrt_double::loaded loaded;
    const xrt_double::kernel_text *text;
    xrt_double::unit *unit;

    const char *name() const { return text->name.c_str(); }
};

} // namespace stand_in
} // namespace xrt

#endif
