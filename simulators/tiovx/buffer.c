#include "buffer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pages.h"

enum { EDGE = 32 }; /* bytes before and behind rows that are checked */

/* Behind rows are pages of their own, which are slow to reach: they are all looked at the first times that a view is
 * written, later those of one row in so many. */
enum { THOROUGH = 2, SAMPLED = 16 };

static struct buffer *_Atomic buffers; /* also dead ones: their addresses are still recognised */

static uint8_t *view_pages(const struct buffer *buffer, enum window window)
{
    return buffer->region + (size_t)window * buffer->window_bytes + page_bytes();
}

uint8_t *buffer_window(const struct buffer *buffer, enum window window)
{
    return view_pages(buffer, window) + buffer->alignment_gap;
}

struct buffer *buffer_create(const char *label, size_t rows, size_t row_bytes, size_t alignment)
{
    const size_t page = page_bytes(), span = rounded_up(row_bytes, page), stride = span + page;
    if (row_bytes > UINT32_MAX / 2 || rows > UINT32_MAX / stride)
        return NULL;
    struct buffer *buffer = allocate(sizeof *buffer);
    buffer->label = label;
    buffer->rows = (uint32_t)rows;
    buffer->row_bytes = (uint32_t)row_bytes;
    buffer->stride = (uint32_t)stride;
    buffer->bytes = (uint32_t)((rows - 1) * stride + row_bytes);
    buffer->row_span = span;
    buffer->alignment_gap = span - rounded_up(row_bytes, alignment);
    buffer->window_bytes = page + (2 * rows + 1) * stride; /* as much again, for who counts rows wrongly */
    buffer->store = allocate(rows * row_bytes);
    memset(buffer->store, POISON, rows * row_bytes);
    buffer->region = pages_reserve(WINDOWS * buffer->window_bytes);
    if (!buffer->region)
        fail("no address space for %s", label);
    buffer->next = atomic_load(&buffers);
    while (!atomic_compare_exchange_weak(&buffers, &buffer->next, buffer))
        ;
    return buffer;
}

void buffer_destroy(struct buffer *buffer)
{
    buffer->dead = 1;
    free(buffer->store);
    buffer->store = NULL;
    if (!pages_withdraw(buffer->region, WINDOWS * buffer->window_bytes))
        fail("cannot withdraw the memory of %s", buffer->label);
}

struct buffer *buffer_around(const uint8_t *address)
{
    struct buffer *buffer = atomic_load(&buffers);
    while (buffer && (address < buffer->region || address >= buffer->region + WINDOWS * buffer->window_bytes))
        buffer = buffer->next;
    return buffer;
}

static void protect(uint8_t *start, size_t bytes, int protection, const struct buffer *buffer)
{
    if (mprotect(start, bytes, protection) != 0)
        fail("cannot protect the memory of %s", buffer->label);
}

/* Row 0 for itself, the others together: the page between them stays closed. */
static void open_rows(const struct buffer *buffer, enum core core, int protection)
{
    uint8_t *pages = view_pages(buffer, (enum window)core);
    protect(pages, buffer->row_span, protection, buffer);
    if (buffer->rows > 1)
        protect(pages + buffer->stride, (size_t)(buffer->rows - 1) * buffer->stride - page_bytes(), protection, buffer);
}

static void close_rows(const struct buffer *buffer, enum core core)
{
    protect(view_pages(buffer, (enum window)core), (size_t)buffer->rows * buffer->stride - page_bytes(), PROT_NONE,
            buffer);
}

static size_t edge_before(const struct buffer *buffer)
{
    return buffer->alignment_gap < EDGE ? buffer->alignment_gap : EDGE;
}

/* Behind a row as the alignment of the first leaves it. */
static size_t slack_behind(const struct buffer *buffer)
{
    return buffer->row_span - buffer->alignment_gap - buffer->row_bytes;
}

static void paint(const struct buffer *buffer, struct view *view, uint8_t *first)
{
    for (size_t row = 0; row < buffer->rows && !view->painted; ++row) {
        uint8_t *start = first + row * buffer->stride;
        memset(start - edge_before(buffer), POISON, edge_before(buffer));
        memset(start + buffer->row_bytes, POISON, slack_behind(buffer));
    }
    view->painted = 1;
}

static int is_filled(const uint8_t *bytes, size_t count, uint8_t value)
{
    for (size_t i = 0; i < count; ++i)
        if (bytes[i] != value)
            return 0;
    return 1;
}

/* The pages behind row 0 and behind the last cannot have been written. */
static int row_is_alone(const struct buffer *buffer, const struct view *view, const uint8_t *start, size_t row)
{
    const size_t slack = slack_behind(buffer);
    const int looked_at = view->written < THOROUGH || (row + view->written) % SAMPLED == 0;
    const int open_behind = looked_at && row > 0 && row + 1 < buffer->rows;
    return is_filled(start - edge_before(buffer), edge_before(buffer), POISON) &&
           is_filled(start + buffer->row_bytes, slack, POISON) &&
           (!open_behind || is_filled(start + buffer->row_bytes + slack, EDGE, 0));
}

static void copy_in(const struct buffer *buffer, uint8_t *first)
{
    for (size_t row = 0; row < buffer->rows; ++row)
        memcpy(first + row * buffer->stride, buffer->store + row * buffer->row_bytes, buffer->row_bytes);
}

static void poison(const struct buffer *buffer, uint8_t *first)
{
    for (size_t row = 0; row < buffer->rows; ++row)
        memset(first + row * buffer->stride, POISON, buffer->row_bytes);
}

/* Skips bytes that the view has: nothing can change them while the view is closed. */
static void fill(struct buffer *buffer, struct view *view, uint8_t *first)
{
    const uint64_t version = buffer->version;
    if (view->access == VX_WRITE_ONLY)
        poison(buffer, first);
    else if (view->version != version)
        copy_in(buffer, first);
    view->version = view->access == VX_READ_ONLY ? version : 0;
    if (view->access != VX_READ_ONLY)
        paint(buffer, view, first);
}

void view_open(struct buffer *buffer, enum core core, vx_enum access)
{
    struct view *view = &buffer->views[core];
    const int current = access == VX_READ_ONLY && view->version == buffer->version;
    view->access = access;
    if (!current) {
        open_rows(buffer, core, PROT_READ | PROT_WRITE);
        fill(buffer, view, buffer_window(buffer, (enum window)core));
    }
    if (access == VX_READ_ONLY)
        open_rows(buffer, core, PROT_READ);
}

static size_t write_back(struct buffer *buffer, struct view *view, const uint8_t *first)
{
    for (size_t row = 0; row < buffer->rows; ++row) {
        const uint8_t *start = first + row * buffer->stride;
        if (!row_is_alone(buffer, view, start, row))
            return row;
        memcpy(buffer->store + row * buffer->row_bytes, start, buffer->row_bytes);
    }
    view->version = ++buffer->version;
    view->written += 1;
    return buffer->rows;
}

size_t view_close(struct buffer *buffer, enum core core)
{
    struct view *view = &buffer->views[core];
    size_t clean = buffer->rows;
    if (view->access != VX_READ_ONLY)
        clean = write_back(buffer, view, buffer_window(buffer, (enum window)core));
    close_rows(buffer, core);
    view->access = 0;
    return clean;
}
