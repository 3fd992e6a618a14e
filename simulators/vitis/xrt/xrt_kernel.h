/* The double of XRT, see xrt_device.h: kernels of the fabric, and their runs. */
#ifndef XRT_KERNEL_H
#define XRT_KERNEL_H

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "ert.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"

namespace xrt {
inline namespace stand_in {

class kernel_impl;
class run_impl;

class XRT_DOUBLE_SEEN kernel {
public:
    kernel() = default;
    kernel(const device &device, const uuid &xclbin_id, const std::string &name);

    /* Returns the group of the memory that an argument's buffer must use. */
    int group_id(int argument) const;

    explicit operator bool() const { return handle != nullptr; }
    const std::shared_ptr<kernel_impl> &get_handle() const { return handle; }

private:
    std::shared_ptr<kernel_impl> handle;
};

class XRT_DOUBLE_SEEN run {
public:
    run() = default;
    explicit run(const kernel &kernel);

    template <typename SCALAR> void set_arg(int index, SCALAR &&value)
    {
        static_assert(std::is_trivially_copyable<std::remove_reference_t<SCALAR>>::value, "no scalar");
        set_scalar(index, &value, sizeof value);
    }
    void set_arg(int index, bo &buffer) { set_buffer(index, buffer); }
    void set_arg(int index, const bo &buffer) { set_buffer(index, buffer); }
    void set_arg(int index, bo &&buffer) { set_buffer(index, buffer); }

    /* Returns at once.  Until `wait` has told its end, the run has the buffers for itself. */
    void start();

    /* 0: as long as it takes.  ERT_CMD_STATE_TIMEOUT: it still runs. */
    ert_cmd_state wait(const std::chrono::milliseconds &timeout = std::chrono::milliseconds{0}) const;
    ert_cmd_state wait(unsigned int timeout_ms) const { return wait(std::chrono::milliseconds{timeout_ms}); }

    explicit operator bool() const { return handle != nullptr; }

private:
    void set_scalar(int index, const void *value, size_t bytes);
    void set_buffer(int index, const bo &buffer);
    std::shared_ptr<run_impl> handle;
};

} // namespace stand_in
} // namespace xrt

#endif
