#include "faults.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

#include "strict.hpp"

#define VARIABLE "HARNESS_DOUBLE_FAULT"

namespace xrt_double {

namespace {

struct faults {
    unsigned long hang = 0, error = 0, memory = 0; /* which one; 0: none */
    bool no_device = false, load = false, identity = false, end = false;
};

std::atomic<unsigned long> buffers, runs;

/* Returns whether the word is a name, "@" and a number. */
bool read_number(const std::string &word, const std::string &name, unsigned long &number)
{
    char *end;
    if (word.compare(0, name.size(), name) != 0 || word[name.size()] < '1' || word[name.size()] > '9')
        return false;
    number = strtoul(&word[name.size()], &end, 10);
    return !*end;
}

bool read_flag(const std::string &word, const char *name, bool &flag)
{
    flag |= word == name;
    return word == name;
}

void read_word(const std::string &word, faults &read)
{
    const bool known = read_number(word, "hang@", read.hang) || read_number(word, "error@", read.error) ||
                       read_number(word, "memory@", read.memory) || read_flag(word, "no_device", read.no_device) ||
                       read_flag(word, "load", read.load) || read_flag(word, "identity", read.identity) ||
                       read_flag(word, "end", read.end);
    if (!known)
        fail(VARIABLE ": '%s' is none of no_device, load, memory@N, hang@N, error@N, identity, end", word.c_str());
}

faults read_environment()
{
    faults read;
    const char *text = getenv(VARIABLE);
    std::string rest = text ? text : "";
    while (text) {
        const size_t comma = rest.find(',');
        read_word(rest.substr(0, comma), read);
        if (comma == std::string::npos)
            break;
        rest = rest.substr(comma + 1);
    }
    return read;
}

const faults &asked()
{
    static const faults read = read_environment();
    return read;
}

} // namespace

bool fault_of_device()
{
    if (asked().no_device)
        tell(VARIABLE ": there is no device");
    return asked().no_device;
}

bool fault_of_load()
{
    if (asked().load)
        tell(VARIABLE ": the xclbin cannot be loaded");
    return asked().load;
}

bool fault_of_identity()
{
    if (asked().identity)
        tell(VARIABLE ": the kernel says that it is another one");
    return asked().identity;
}

bool fault_of_end()
{
    if (asked().end)
        tell(VARIABLE ": the process does not end");
    return asked().end;
}

bool fault_of_memory()
{
    const unsigned long number = ++buffers;
    if (number != asked().memory)
        return false;
    tell(VARIABLE ": there is no memory for buffer %lu", number);
    return true;
}

run_fault fault_of_run()
{
    const unsigned long number = ++runs;
    if (number == asked().hang) {
        tell(VARIABLE ": run %lu never ends", number);
        return run_fault::hang;
    }
    if (number == asked().error) {
        tell(VARIABLE ": run %lu ends with an error", number);
        return run_fault::error;
    }
    return run_fault::none;
}

} // namespace xrt_double
