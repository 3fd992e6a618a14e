/* The XML of an xclbin (section EMBEDDED_METADATA), as far as it is about kernels. */
#ifndef METADATA_HPP
#define METADATA_HPP

#include <cstdint>
#include <string>
#include <vector>

namespace xrt_double {

struct argument {
    std::string name, type;
    uint64_t index = 0, size = 0, offset = 0;
    bool is_buffer = false;
    bool is_written = false; /* its type is of a pointer to what is not const */
};

struct kernel_text {
    std::string name;
    std::vector<argument> arguments; /* in their order */
    std::vector<std::string> units;  /* KERNEL:INSTANCE each */
};

/* std::runtime_error: the text is not whole. */
std::vector<kernel_text> read_metadata(const std::string &xml);

} // namespace xrt_double

#endif
