#include "buffer.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>

#include "strict.hpp"

namespace xrt_double {

THREAD_LOCAL const char *running;

namespace {

std::atomic<buffer *> buffers; /* also destroyed ones: their addresses are still recognised */
std::atomic<unsigned> made;
struct sigaction before;

/* Leaves faults outside the double's memory to the earlier handler, when the access is repeated. */
void explain_fault(int signal, siginfo_t *information, void *)
{
    explain_access(static_cast<const uint8_t *>(information->si_addr));
    sigaction(signal, &before, nullptr);
}

bool explain_faults()
{
    struct sigaction action = {};
    action.sa_sigaction = explain_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &before) == 0;
}

} // namespace

buffer::buffer(size_t size, unsigned memory)
    : bytes(size), group(memory), number(++made), host(size), device(size), next(buffers)
{
    static const bool explained = explain_faults();
    if (!explained)
        fail("cannot look at accesses");
    host.open(bytes, PROT_READ | PROT_WRITE);
    memset(host.first(bytes), POISON, bytes);
    while (!buffers.compare_exchange_weak(next, this))
        ;
}

/* More of the device's copy: what it has moves, since it must end where the pages do. */
void buffer::reach(size_t wanted)
{
    device.open(bytes, PROT_READ | PROT_WRITE);
    if (wanted <= brought)
        return;
    uint8_t *first = device.first(wanted);
    memmove(first, device.first(brought), brought);
    memset(first + brought, POISON, wanted - brought);
    brought = wanted;
}

void buffer::check_free(const char *call) const
{
    if (destroyed)
        fail("%s: buffer %u is destroyed", call, number);
    if (lenders)
        fail("%s: buffer %u is with a run of %s, of which wait has not told the end", call, number, kernel);
}

void buffer::check_range(const char *call, size_t count, size_t offset) const
{
    if (offset > bytes || count > bytes - offset)
        fail("%s: %zu bytes from byte %zu on of buffer %u, which has %zu", call, count, offset, number, bytes);
}

void buffer::to_device(size_t count, size_t offset)
{
    std::lock_guard<std::mutex> lock(mutex);
    check_free("sync to the device");
    check_range("sync to the device", count, offset);
    if (count == 0)
        return;
    reach(offset + count);
    memcpy(device.first(brought) + offset, host.first(bytes) + offset, count);
    device.close();
}

void buffer::from_device(size_t count, size_t offset)
{
    std::lock_guard<std::mutex> lock(mutex);
    check_free("sync from the device");
    check_range("sync from the device", count, offset);
    if (count == 0)
        return;
    if (offset + count > brought)
        fail("sync from the device: byte %zu of buffer %u was neither synced to it nor written by a kernel",
             offset > brought ? offset : brought, number);
    device.open(brought, PROT_READ);
    memcpy(host.first(bytes) + offset, device.first(brought) + offset, count);
    device.close();
}

uint8_t *buffer::mapped() const
{
    return host.first(bytes);
}

void buffer::open_for_run(bool is_written)
{
    reach(is_written ? bytes : brought);
    device.poison_edges(brought);
    device.close();
    device.open(brought, is_written ? PROT_READ | PROT_WRITE : PROT_READ);
    host.close();
}

uint8_t *buffer::lend(const char *to, bool is_written)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (destroyed)
        fail("start of %s: buffer %u is destroyed", to, number);
    if (lenders && (is_written || written))
        fail("start of %s: buffer %u is with another run, of %s, and one of them writes to it", to, number, kernel);
    if (lenders == 0) /* else another run reads it already, at this moment perhaps */
        open_for_run(is_written);
    kernel = to;
    written = is_written;
    abandoned = false;
    ++lenders;
    return device.first(brought);
}

void buffer::give_back(const char *from, bool is_written)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (is_written && !device.edges_are_poisoned(bytes))
        fail("kernel %s: writes next to buffer %u", from, number);
    if (--lenders)
        return;
    device.close();
    host.open(bytes, PROT_READ | PROT_WRITE);
    if (written)
        memset(host.first(bytes), POISON, bytes);
    written = false;
}

void buffer::abandon()
{
    std::lock_guard<std::mutex> lock(mutex);
    abandoned = true;
}

void buffer::destroy()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (lenders && !abandoned)
        fail("buffer %u is destroyed while it is with a run of %s, of which wait has not told the end", number, kernel);
    destroyed = true;
    if (lenders)
        return;
    host.withdraw();
    device.withdraw();
}

void buffer::explain_host(ptrdiff_t at) const
{
    if (destroyed)
        fail("touches the mapped memory of buffer %u, which is destroyed", number);
    if (at < 0 || (size_t)at >= bytes)
        fail("touches mapped memory at byte %td of buffer %u, which has %zu", at, number, bytes);
    fail("touches mapped memory, byte %td of buffer %u, while it is with a run of %s, of which wait has not told the "
         "end", at, number, kernel);
}

void buffer::explain_device(ptrdiff_t at) const
{
    if (!running)
        fail("touches the device's memory of buffer %u, which no program can", number);
    if (destroyed || !lenders)
        fail("kernel %s: touches buffer %u, which is not its own", running, number);
    if (at < 0 || (size_t)at >= bytes)
        fail("kernel %s: touches byte %td of buffer %u, which has %zu", running, at, number, bytes);
    if ((size_t)at >= brought)
        fail("kernel %s: reads byte %td of buffer %u; only %zu bytes were ever synced to the device", running, at,
             number, brought);
    fail("kernel %s: writes to byte %td of buffer %u, which it may only read", running, at, number);
}

void buffer::explain(const uint8_t *address) const
{
    if (host.holds(address))
        explain_host(address - host.first(bytes));
    if (device.holds(address))
        explain_device(address - device.first(brought));
}

void explain_access(const uint8_t *address)
{
    for (const buffer *each = buffers; each; each = each->next)
        each->explain(address);
}

} // namespace xrt_double
