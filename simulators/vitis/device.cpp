#include <mutex>
#include <stdexcept>

#include "fabric.hpp"
#include "faults.hpp"
#include "registry.hpp"
#include "strict.hpp"
#include "xrt/xrt_device.h"

namespace xrt_double {

namespace {

std::mutex mutex;

/* Never destroyed, as a board is not when a program ends. */
loaded &state()
{
    static loaded *made = new loaded{};
    return *made;
}

const simulated_kernel *simulated(const std::string &name)
{
    for (size_t i = 0; i < simulated_kernel_count; ++i)
        if (name == simulated_kernels[i].name)
            return &simulated_kernels[i];
    return nullptr;
}

/* Checks that the linked kernels are those of the xclbin. */
void check_kernels(const image &image)
{
    for (const kernel_text &kernel : image.kernels) {
        const simulated_kernel *found = simulated(kernel.name);
        if (!found)
            fail("load_xclbin: %s tells of kernel %s, which is not simulated", image.path.c_str(), kernel.name.c_str());
        if (found->argument_count != kernel.arguments.size())
            fail("load_xclbin: %s tells of %zu arguments of kernel %s; simulated is one with %zu", image.path.c_str(),
                 kernel.arguments.size(), kernel.name.c_str(), found->argument_count);
    }
}

/* Without other sections XRT throws when it misses them. */
void check_connectivity(const image &image)
{
    if (!image.has_connectivity)
        fail("load_xclbin: %s has no section CONNECTIVITY: on a KV260 the program would crash", image.path.c_str());
}

} // namespace

loaded loaded_now()
{
    std::lock_guard<std::mutex> lock(mutex);
    return state();
}

void check_loaded(const loaded &made, const char *what)
{
    if (loaded_now().number != made.number)
        fail("%s: another xclbin than %s was loaded since it was made", what, made.image->path.c_str());
}

static void load(const std::shared_ptr<const image> &image)
{
    check_connectivity(*image);
    check_kernels(*image);
    if (fault_of_load())
        throw std::runtime_error("failed to load xclbin '" + image->path + "'");
    std::lock_guard<std::mutex> lock(mutex);
    if (!state().image || state().image->id != image->id)
        state() = {image, state().number + 1};
}

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

device::device(unsigned int index)
{
    if (index != 0 || xrt_double::fault_of_device())
        throw std::runtime_error("Could not open device with index '" + std::to_string(index) + "'");
    handle = std::make_shared<device_impl>();
}

std::string device::name() const
{
    if (!handle)
        xrt_double::fail("get_info: the device was made of nothing");
    return "host-simulation of Vitis HLS (C++)";
}

uuid device::load_xclbin(const xclbin &image)
{
    if (!handle || !image.get_handle())
        xrt_double::fail("load_xclbin: the %s was made of nothing", handle ? "xclbin" : "device");
    xrt_double::load(image.get_handle()->image);
    return image.get_uuid();
}

} // namespace stand_in
} // namespace xrt
