/* Format of an xclbin: a header, then the table of sections, then the sections (axlf, "xclbin2"). */
#ifndef IMAGE_HPP
#define IMAGE_HPP

#include <memory>
#include <string>
#include <vector>

#include "metadata.hpp"
#include "xrt/xrt_uuid.h"

namespace xrt_double {

struct bank {
    bool used;
    uint64_t bytes;
    std::string tag;
};

/* An argument of a unit, and the memory that it reaches: numbers in their sections. */
struct connection {
    int32_t argument, unit, memory;
};

struct image {
    std::string path;
    xrt::uuid id;
    std::vector<kernel_text> kernels;
    std::vector<bank> banks;
    std::vector<std::string> units;
    std::vector<connection> connections;
    bool has_connectivity = false;

    /* NULL: it has none of that name. */
    const kernel_text *kernel(const std::string &name) const;

    /* Its one unit in IP_LAYOUT; std::runtime_error: there is none. */
    int32_t unit_of(const kernel_text &kernel) const;

    /* The memory that an argument of a kernel reaches; -1: none. */
    int memory_of(const kernel_text &kernel, size_t argument) const;
};

/* std::runtime_error: there is no such file, or it is no xclbin, or it is cut off. */
std::shared_ptr<const image> read_image(const std::string &path);

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

class xclbin_impl {
public:
    std::shared_ptr<const xrt_double::image> image;
};

} // namespace stand_in
} // namespace xrt

#endif
