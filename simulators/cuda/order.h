/* The order that streams and events give to the work of a GPU: vector clocks, kept when work is added to a stream.
 *
 * Operations of a stream are numbered from 1.  A clock says of every stream how many of its operations are ordered
 * before what it belongs to.  Two accesses to an allocation, one of them a write, must be ordered: by their stream, by an
 * event, or because the thread that adds the second has waited for the first.  What threads tell each other is not seen
 * here; a program whose streams are ordered by its threads alone is refused, too.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_STREAMS = 32 };

/* An operation of a stream. */
struct Place {
    unsigned slot;
    uint64_t number; /* 0: none */
};

struct Clock {
    uint64_t of[MOST_STREAMS];

    void join(const Clock &other)
    {
        for (unsigned slot = 0; slot < MOST_STREAMS; ++slot)
            of[slot] = other.of[slot] > of[slot] ? other.of[slot] : of[slot];
    }

    bool knows(Place place) const
    {
        return of[place.slot] >= place.number;
    }
};

/* The last accesses to an allocation, with what made them. */
struct Accesses {
    Place written;
    const char *writer;
    uint64_t read[MOST_STREAMS];
    const char *reader[MOST_STREAMS];
};

#endif
