/* A buffer as programs hold it: handles of one share it, and the last one gives it back. */
#ifndef BO_HPP
#define BO_HPP

#include "alive.hpp"
#include "buffer.hpp"
#include "fabric.hpp"
#include "xrt/xrt_bo.h"

namespace xrt {
inline namespace stand_in {

class bo_impl {
public:
    bo_impl(size_t bytes, memory_group group);
    ~bo_impl();

    const xrt_double::loaded loaded;
    xrt_double::buffer *const buffer;

private:
    const xrt_double::alive alive;
};

} // namespace stand_in
} // namespace xrt

#endif
