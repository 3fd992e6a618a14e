/* The double of XRT, see xrt_device.h: the sixteen bytes by which an xclbin is known. */
#ifndef XRT_UUID_H
#define XRT_UUID_H

#include <array>
#include <string>

/* Visible symbols of the double.  Their link names differ from those of XRT: a mixture of both cannot link. */
#define XRT_DOUBLE_SEEN __attribute__((visibility("default")))

namespace xrt {
inline namespace stand_in {

class XRT_DOUBLE_SEEN uuid {
public:
    uuid() = default;
    explicit uuid(const unsigned char *bytes);
    std::string to_string() const;
    explicit operator bool() const;
    bool operator==(const uuid &other) const;
    bool operator!=(const uuid &other) const;

private:
    std::array<unsigned char, 16> bytes{};
};

} // namespace stand_in
} // namespace xrt

#endif
