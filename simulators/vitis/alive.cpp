#include "alive.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include <unistd.h>

#include "faults.hpp"
#include "strict.hpp"

namespace xrt_double {

namespace {

struct living {
    std::mutex mutex;
    std::set<const alive *> things;
};

/* Never destroyed: a program's last objects go when everything else is gone. */
living &all()
{
    static living *made = new living;
    return *made;
}

void tell_leaks(int status)
{
    std::lock_guard<std::mutex> lock(all().mutex);
    if (status != 0 || all().things.empty())
        return;
    std::string names;
    for (const alive *thing : all().things)
        names += (names.empty() ? "" : ", ") + thing->name;
    fflush(nullptr);
    fail("not given back when the program ends: %s", names.c_str());
}

void end(int status, void *)
{
    tell_leaks(status);
    while (fault_of_end())
        pause();
}

/* Before the program's own objects are made, so that it is called when those that live as long as it are gone. */
__attribute__((constructor)) void look_at_the_end()
{
    if (on_exit(end, nullptr) != 0)
        fail("cannot look at the end of the program");
}

} // namespace

alive::alive(std::string named) : name(std::move(named))
{
    std::lock_guard<std::mutex> lock(all().mutex);
    all().things.insert(this);
}

alive::~alive()
{
    std::lock_guard<std::mutex> lock(all().mutex);
    all().things.erase(this);
}

} // namespace xrt_double
