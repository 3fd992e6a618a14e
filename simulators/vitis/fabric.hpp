/* The one device, and what is loaded into it. */
#ifndef FABRIC_HPP
#define FABRIC_HPP

#include <memory>

#include "image.hpp"

namespace xrt_double {

/* A loaded xclbin; objects of it are invalid once another one is loaded. */
struct loaded {
    std::shared_ptr<const struct image> image;
    unsigned long number; /* how many were loaded before */
};

/* The loaded xclbin; without an image: none yet. */
loaded loaded_now();

/* Ends the process if `made` of it is used though another one was loaded since. */
void check_loaded(const loaded &made, const char *what);

} // namespace xrt_double

namespace xrt {
inline namespace stand_in {

class device_impl {};

} // namespace stand_in
} // namespace xrt

#endif
