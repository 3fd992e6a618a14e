/* What a program has made and not given back: told, and an error, where it ends without another one. */
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
