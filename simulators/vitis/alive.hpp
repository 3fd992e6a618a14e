/* Objects that a program created and did not release: an error at its end, if there is no other. */
#ifndef ALIVE_HPP
#define ALIVE_HPP

#include <string>

namespace xrt_double {

class alive {
public:
    explicit alive(std::string name);
    ~alive();
    alive(const alive &) = delete;
    alive &operator=(const alive &) = delete;

    const std::string name;
};

} // namespace xrt_double

#endif
