#include "bo.hpp"

#include <new>
#include <stdexcept>

#include "faults.hpp"
#include "strict.hpp"

namespace xrt {
inline namespace stand_in {

namespace {

xrt_double::buffer *allocated(const xrt_double::loaded &loaded, size_t bytes, memory_group group)
{
    if (!loaded.image)
        xrt_double::fail("a buffer is made before an xclbin is loaded, which says what memories there are");
    const auto &banks = loaded.image->banks;
    if (group >= banks.size() || !banks[group].used)
        throw std::out_of_range("No such memory group " + std::to_string(group));
    if (bytes == 0)
        xrt_double::fail("a buffer is made of no bytes");
    if (xrt_double::fault_of_memory() || bytes > banks[group].bytes)
        throw std::bad_alloc();
    return new xrt_double::buffer(bytes, group);
}

const std::shared_ptr<bo_impl> &used(const std::shared_ptr<bo_impl> &handle, const char *call)
{
    if (!handle)
        xrt_double::fail("%s: the buffer was made of nothing", call);
    xrt_double::check_loaded(handle->loaded, call);
    return handle;
}

} // namespace

bo_impl::bo_impl(size_t bytes, memory_group group)
    : loaded(xrt_double::loaded_now()), buffer(allocated(loaded, bytes, group)),
      alive("buffer " + std::to_string(buffer->number) + " (" + std::to_string(bytes) + " bytes)")
{
}

bo_impl::~bo_impl()
{
    buffer->destroy();
}

bo::bo(const device &device, size_t size, memory_group group)
{
    if (!device)
        xrt_double::fail("a buffer is made on a device that was made of nothing");
    handle = std::make_shared<bo_impl>(size, group);
}

size_t bo::size() const
{
    return used(handle, "size")->buffer->bytes;
}

void bo::sync(xclBOSyncDirection direction, size_t size, size_t offset)
{
    xrt_double::buffer *const buffer = used(handle, "sync")->buffer;
    if (direction == XCL_BO_SYNC_BO_TO_DEVICE)
        buffer->to_device(size, offset);
    else
        buffer->from_device(size, offset);
}

void *bo::map()
{
    return used(handle, "map")->buffer->mapped();
}

} // namespace stand_in
} // namespace xrt
