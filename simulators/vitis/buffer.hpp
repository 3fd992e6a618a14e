/* A buffer: a copy in the memory of the host, one in that of the device.
 *
 * Each ends where a page does: an access behind it is told.  Of the device's copy only what a sync or a kernel has
 * brought can be touched at all; before that, as before it, there is poison.  The device's copy is open only while a
 * run has the buffer, the host's only while none has.
 */
#ifndef BUFFER_HPP
#define BUFFER_HPP

#include <mutex>

#include "pages.hpp"
#include "strict.hpp"

namespace xrt_double {

class buffer {
public:
    /* For ever known by its addresses: never deleted.  std::bad_alloc. */
    buffer(size_t bytes, unsigned group);

    const size_t bytes;
    const unsigned group, number; /* the memory that it lies in; of all buffers, from 1 */

    /* Bytes from one copy to the other. */
    void to_device(size_t count, size_t offset);
    void from_device(size_t count, size_t offset);

    uint8_t *mapped() const;

    /* For a run of a kernel: the address that it gets, until it is given back. */
    uint8_t *lend(const char *kernel, bool is_written);
    void give_back(const char *kernel, bool is_written);

    /* The run that has it may never end, as the program knows. */
    void abandon();

    /* The program has no use for it any more. */
    void destroy();

    bool is_destroyed() const { return destroyed; }

private:
    std::mutex mutex;
    const pages host, device;
    size_t brought = 0;    /* of the device's copy, what can be touched */
    unsigned lenders = 0;  /* runs that have it */
    bool written = false;  /* by one of them */
    bool abandoned = false, destroyed = false;
    const char *kernel = ""; /* that has it, or had it last */
    buffer *next;

    void reach(size_t wanted);
    void open_for_run(bool is_written);
    void check_range(const char *call, size_t count, size_t offset) const;
    void check_free(const char *call) const;
    void explain(const uint8_t *address) const;
    void explain_host(ptrdiff_t at) const;
    void explain_device(ptrdiff_t at) const;

    friend void explain_access(const uint8_t *address);
};

/* Name of the kernel that this thread runs; NULL: the program. */
extern THREAD_LOCAL const char *running;

/* Ends the process where an address that could not be touched is of a buffer. */
void explain_access(const uint8_t *address);

} // namespace xrt_double

#endif
