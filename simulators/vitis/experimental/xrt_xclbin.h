/* The double of XRT, see xrt/xrt_device.h: an xclbin's file, and what it says of its kernels. */
#ifndef XRT_XCLBIN_H
#define XRT_XCLBIN_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xrt/xrt_uuid.h"

namespace xrt {
inline namespace stand_in {

class xclbin_impl;

class XRT_DOUBLE_SEEN xclbin {
public:
    class arg_impl;
    class XRT_DOUBLE_SEEN arg {
    public:
        arg() = default;
        explicit arg(std::shared_ptr<arg_impl> handle);
        std::string get_name() const;
        std::string get_host_type() const;
        uint64_t get_size() const; /* bytes; of a buffer those of its address */
        uint64_t get_offset() const;
        size_t get_index() const;

    private:
        std::shared_ptr<arg_impl> handle;
    };

    class kernel_impl;
    class XRT_DOUBLE_SEEN kernel {
    public:
        kernel() = default;
        explicit kernel(std::shared_ptr<kernel_impl> handle);
        std::string get_name() const;
        size_t get_num_args() const;
        std::vector<arg> get_args() const;

    private:
        std::shared_ptr<kernel_impl> handle;
    };

    xclbin() = default;
    explicit xclbin(const std::string &filename);
    std::vector<kernel> get_kernels() const;
    uuid get_uuid() const;
    const std::shared_ptr<xclbin_impl> &get_handle() const { return handle; }

private:
    std::shared_ptr<xclbin_impl> handle;
};

} // namespace stand_in
} // namespace xrt

#endif
