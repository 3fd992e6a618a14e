/* Messages of the double.  A file includes and calls only files below it:
 *
 *     run.cpp                   runs of kernels, each in a thread of its own
 *     kernel.hpp, bo.cpp        kernels of the loaded xclbin; buffers as programs hold them
 *     fabric.hpp (device.cpp)   the one device, and what is loaded into it
 *     image.hpp (xclbin.cpp)    an xclbin's file: sections, memories, kernels, connections
 *     buffer.hpp, metadata.hpp  the two copies of a buffer; the XML that describes kernels
 *     alive.hpp, pages.hpp      what a program has to give back; memory that can be closed
 *     faults.hpp                what the environment lets go wrong
 *     strict.hpp
 */
#ifndef STRICT_HPP
#define STRICT_HPP

#include <cstddef>

namespace xrt_double {

enum { EXIT_STRICT = 4 };

/* For a thread's variable that a signal handler may read: it must exist without an allocation. */
#define THREAD_LOCAL thread_local __attribute__((tls_model("initial-exec")))

/* Tells what went wrong; ends the process at once, from wherever. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells it. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace xrt_double

#endif
