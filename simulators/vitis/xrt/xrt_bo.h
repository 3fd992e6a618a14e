/* The double of XRT, see xrt_device.h: buffers, in the memory of the host and in that of the device. */
#ifndef XRT_BO_H
#define XRT_BO_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "xrt/xrt_device.h"

enum xclBOSyncDirection { XCL_BO_SYNC_BO_TO_DEVICE = 0, XCL_BO_SYNC_BO_FROM_DEVICE };

namespace xrt {
inline namespace stand_in {

using memory_group = uint32_t;

class bo_impl;

class XRT_DOUBLE_SEEN bo {
public:
    bo() = default;
    bo(const device &device, size_t size, memory_group group);
    size_t size() const;

    /* Bytes of one copy become those of the other; nothing else moves any. */
    void sync(xclBOSyncDirection direction, size_t size, size_t offset);
    void sync(xclBOSyncDirection direction) { sync(direction, size(), 0); }

    /* The host's copy. */
    void *map();
    template <typename POINTER> POINTER map() { return reinterpret_cast<POINTER>(map()); }

    explicit operator bool() const { return handle != nullptr; }
    const std::shared_ptr<bo_impl> &get_handle() const { return handle; }

private:
    std::shared_ptr<bo_impl> handle;
};

} // namespace stand_in
} // namespace xrt

#endif
