/* A double of XRT, for boards without a Kria's fabric.  This is not XRT: it is the harness's own implementation of the
 * few classes of XRT's native C++ API that it uses, by the names that XRT 2.13 gives them.
 *
 * It is strict where XRT is lax: whatever would go wrong, or could, on a board is told in a line on standard error that
 * begins "XRT double: ", and ends the process.  What XRT answers with an exception is one here too.
 */
#ifndef XRT_DEVICE_H
#define XRT_DEVICE_H

#include <memory>
#include <string>

#include "experimental/xrt_xclbin.h"
#include "xrt/xrt_uuid.h"

namespace xrt {
inline namespace stand_in {

namespace info {
enum class device : unsigned int { name = 5 };
} // namespace info

class device_impl;

class XRT_DOUBLE_SEEN device {
public:
    device() = default;
    explicit device(unsigned int index);
    explicit device(int index) : device(static_cast<unsigned int>(index)) {}

    /* Returns the name "host-simulation of Vitis HLS (C++)", by which a program recognises the double. */
    template <info::device what> std::string get_info() const
    {
        static_assert(what == info::device::name, "the double has nothing but a name");
        return name();
    }

    uuid load_xclbin(const xclbin &image);
    uuid load_xclbin(const std::string &filename) { return load_xclbin(xclbin(filename)); }
    explicit operator bool() const { return handle != nullptr; }
    const std::shared_ptr<device_impl> &get_handle() const { return handle; }

private:
    std::string name() const;
    std::shared_ptr<device_impl> handle;
};

} // namespace stand_in
} // namespace xrt

#endif
