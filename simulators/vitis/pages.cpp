#include "pages.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#include "strict.hpp"

namespace xrt_double {

namespace {

enum { CLOSED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, EDGE = 64, LEAST_ROOM = 1 << 20 };

void protect(uint8_t *start, size_t bytes, int protection)
{
    if (bytes && mprotect(start, bytes, protection) != 0)
        throw std::bad_alloc();
}

size_t words(size_t bytes)
{
    return rounded_up(bytes, sizeof(uint32_t));
}

} // namespace

size_t page_bytes()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t rounded_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

pages::pages(size_t bytes) : span(rounded_up(words(bytes), page_bytes()))
{
    const size_t room = std::max(span, rounded_up(LEAST_ROOM, page_bytes()));
    reserved_bytes = room + span + room;
    void *start = mmap(nullptr, reserved_bytes, PROT_NONE, CLOSED, -1, 0);
    if (start == MAP_FAILED)
        throw std::bad_alloc();
    reserved = static_cast<uint8_t *>(start);
    end = reserved + room + span;
}

uint8_t *pages::first(size_t reached) const
{
    return end - words(reached);
}

void pages::open(size_t reached, int protection) const
{
    const size_t opened = rounded_up(words(reached), page_bytes());
    protect(end - opened, opened, protection);
}

void pages::close() const
{
    protect(end - span, span, PROT_NONE);
}

void pages::withdraw() const
{
    if (mmap(reserved, reserved_bytes, PROT_NONE, CLOSED | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail("cannot withdraw memory");
}

bool pages::holds(const uint8_t *address) const
{
    return address >= reserved && address < reserved + reserved_bytes;
}

void pages::poison_edges(size_t reached) const
{
    uint8_t *start = first(reached);
    const size_t before = std::min<size_t>(EDGE, (uintptr_t)start % page_bytes());
    memset(start - before, POISON, before);
    memset(start + reached, POISON, words(reached) - reached);
}

bool pages::edges_are_poisoned(size_t reached) const
{
    const auto poison = [](uint8_t byte) { return byte == POISON; };
    const uint8_t *start = first(reached);
    const size_t before = std::min<size_t>(EDGE, (uintptr_t)start % page_bytes());
    return std::all_of(start - before, start, poison) && std::all_of(start + reached, (const uint8_t *)end, poison);
}

} // namespace xrt_double
