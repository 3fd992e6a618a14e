/* Buffers that cores share.
 *
 * What a buffer holds is in its store.  A core sees it through a view of its own, as through a cache: to map copies the
 * store into the view, to unmap copies it back, and but for the time between a view cannot be touched at all.  In a
 * view rows lie apart:
 *
 *     (no access) | 0xa5.. row 0 | (no access) | 0xa5.. row 1 | zeros | 0xa5.. row 2 | ... row n-1 | (no access)
 *
 * Every row ends where a page does, and the stride is one page more than the rows need.  Access behind row 0 and
 * behind the last row faults, as it does before row 0 beyond the page; writes elsewhere between rows are found by the
 * bytes next to the rows when the buffer is unmapped.
 *
 * The addresses in a descriptor are of windows that nobody can touch: a kernel has to ask for its view.
 */
#ifndef BUFFER_H
#define BUFFER_H

#include "request.h"

/* Windows of a buffer's address space: a view for each core, then the addresses in descriptors. */
enum window { SHARED = CORES, HOST, WINDOWS };

struct view {
    vx_enum access;   /* as mapped; 0: not */
    uint64_t request; /* the number of the one that mapped it last */
    uint64_t version; /* of the store, that it shows; 0: none */
    size_t written;   /* how often by its core */
    int painted;      /* the bytes before rows are poison */
};

struct buffer {
    const char *label;                    /* of its object */
    uint32_t rows, row_bytes, stride;     /* as objects and kernels know them */
    uint32_t bytes;                       /* from the first to the last, in a view */
    uint8_t *store;                       /* rows, dense */
    _Atomic uint64_t version;             /* how often it was written; 0: it has no contents */
    struct view views[CORES];
    uint8_t *region;                      /* of the address space, WINDOWS windows */
    size_t window_bytes, row_span, alignment_gap;
    int dead;
    struct buffer *next;
};

/* Rows of bytes; `alignment` of the first one in views.  NULL: too large.  The label must outlive the process's use. */
struct buffer *buffer_create(const char *label, size_t rows, size_t row_bytes, size_t alignment);
void buffer_destroy(struct buffer *buffer);
uint8_t *buffer_window(const struct buffer *buffer, enum window window);

/* The buffer whose address space an address is of, also a dead one; NULL: none. */
struct buffer *buffer_around(const uint8_t *address);

/* To map it for a core, and to unmap it: the row that something was written next to, or as many as there are. */
void view_open(struct buffer *buffer, enum core core, vx_enum access);
size_t view_close(struct buffer *buffer, enum core core);

#endif
