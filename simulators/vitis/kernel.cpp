#include "kernel.hpp"

#include <map>
#include <stdexcept>

#include "strict.hpp"

namespace xrt_double {

/* Never destroyed, as what hangs may still use them when the program ends. */
static unit *unit_of(const std::string &name)
{
    static std::mutex mutex;
    static auto *units = new std::map<std::string, unit>;
    std::lock_guard<std::mutex> lock(mutex);
    unit &found = (*units)[name];
    for (size_t i = 0; i < simulated_kernel_count; ++i)
        if (name == simulated_kernels[i].name)
            found.simulated = &simulated_kernels[i];
    return &found;
}

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

kernel::kernel(const device &device, const uuid &xclbin_id, const std::string &name)
{
    const xrt_double::loaded loaded = xrt_double::loaded_now();
    if (!device)
        xrt_double::fail("kernel %s: the device was made of nothing", name.c_str());
    if (loaded.image && loaded.image->id != xclbin_id)
        throw std::runtime_error("xclbin id mismatch: " + xclbin_id.to_string());
    const xrt_double::kernel_text *text = loaded.image ? loaded.image->kernel(name) : nullptr;
    if (!text)
        throw std::runtime_error("No such kernel '" + name + "'");
    loaded.image->unit_of(*text);
    handle = std::make_shared<kernel_impl>(kernel_impl{loaded, text, xrt_double::unit_of(name)});
}

int kernel::group_id(int argument) const
{
    if (!handle)
        xrt_double::fail("group_id: the kernel was made of nothing");
    xrt_double::check_loaded(handle->loaded, "group_id");
    if (argument < 0 || (size_t)argument >= handle->text->arguments.size())
        throw std::out_of_range("No such argument " + std::to_string(argument) + " of kernel " + handle->name());
    const int memory = handle->loaded.image->memory_of(*handle->text, (size_t)argument);
    if (memory < 0 || (size_t)memory >= handle->loaded.image->banks.size())
        throw std::out_of_range("argument " + std::to_string(argument) + " of kernel " + handle->name() +
                                " reaches no memory");
    return memory;
}

} // namespace stand_in
} // namespace xrt
