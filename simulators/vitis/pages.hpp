/* Memory by pages, which can be closed: whoever touches it then is told, see buffer.cpp. */
#ifndef PAGES_HPP
#define PAGES_HPP

#include <cstddef>
#include <cstdint>

namespace xrt_double {

enum { POISON = 0xa5 };

size_t page_bytes();
size_t rounded_up(size_t value, size_t multiple);

/* A place for up to so many bytes, of which only some can be touched.  They end where pages do, to the word:
 *
 *     (no access) | 0xa5.. bytes | (no access)
 *
 * As much again behind them is closed, for who counts wrongly. */
class pages {
public:
    explicit pages(size_t bytes);

    /* The first byte when the first `reached` of all bytes can be touched. */
    uint8_t *first(size_t reached) const;

    /* To let them be touched: PROT_NONE, PROT_READ, or PROT_READ | PROT_WRITE. */
    void open(size_t reached, int protection) const;
    void close() const;

    /* Gives back what they hold, and keeps their addresses closed. */
    void withdraw() const;

    bool holds(const uint8_t *address) const;

    /* The bytes that lie on the same page before the first, and behind the last of the last word. */
    void poison_edges(size_t reached) const;
    bool edges_are_poisoned(size_t reached) const;

private:
    uint8_t *reserved, *end; /* where the bytes end */
    size_t reserved_bytes, span;
};

} // namespace xrt_double

#endif
