#define _GNU_SOURCE
#include "buffer.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "double.h"
#include "object.h"
#include "target.h"

enum { EDGE = 32, LABEL = 400 }; /* EDGE: bytes before and behind rows that are checked */

/* Behind rows are pages of their own, which are slow to reach: they are all looked at the first times that a view is
 * written, later those of one row in so many. */
enum { THOROUGH = 2, SAMPLED = 16 };

static struct buffer *_Atomic buffers; /* also dead ones: their addresses are still recognised */

size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t rounded_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

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
    buffer->region = mmap(NULL, WINDOWS * buffer->window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0);
    if (buffer->region == MAP_FAILED)
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
    if (mmap(buffer->region, WINDOWS * buffer->window_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail("cannot withdraw the memory of %s", buffer->label);
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

/* "parameter 2 (tensor 5)", as the request that runs knows a buffer. */
static const char *name_in_request(const struct buffer *buffer, char text[LABEL])
{
    const struct request *request = request_running();
    int index = -1;
    for (int i = 0; request && i < request->count; ++i)
        index = request->references[i]->buffer == buffer ? i : index;
    if (index < 0)
        snprintf(text, LABEL, "%s%s", buffer->label, request ? " (no parameter of it)" : "");
    else
        snprintf(text, LABEL, "parameter %d (%s)", index, buffer->label);
    return text;
}

/* The parameter of the request that runs whose view begins at an address. */
static struct buffer *parameter_at(const void *pointer, const char *function)
{
    const struct request *request = request_running();
    if (!request)
        fail("%s: called outside a callback of a kernel", function);
    for (int i = 0; i < request->count; ++i) {
        struct buffer *buffer = request->references[i]->buffer;
        if (buffer && buffer_window(buffer, (enum window)core_self()) == pointer)
            return buffer;
    }
    fail("%s: %p is where no parameter's buffer begins", function, pointer);
}

static int direction_of(const struct buffer *buffer)
{
    const struct request *request = request_running();
    for (int i = 0; request->directions && i < request->count; ++i)
        if (request->references[i]->buffer == buffer)
            return request->directions[i];
    return VX_BIDIRECTIONAL;
}

void *tivxMemShared2TargetPtr(const tivx_shared_mem_ptr_t *shared)
{
    const struct request *request = request_running();
    if (!request)
        fail("tivxMemShared2TargetPtr: called outside a callback of a kernel");
    for (int i = 0; shared && i < request->count; ++i) {
        struct buffer *buffer = request->references[i]->buffer;
        if (buffer && (uintptr_t)buffer_window(buffer, SHARED) == shared->shared_ptr)
            return buffer_window(buffer, (enum window)core_self());
    }
    fail("tivxMemShared2TargetPtr: the address is no parameter's");
}

static const char *access_name(vx_enum access)
{
    static const char *const names[] = {"nothing", "VX_READ_ONLY", "VX_WRITE_ONLY", "VX_READ_AND_WRITE"};
    return access >= 0 && access <= VX_READ_AND_WRITE ? names[access] : "no access that there is";
}

static void check_map(const struct buffer *buffer, const struct view *view, uint32_t size, vx_enum memory,
                      vx_enum access)
{
    char name[LABEL];
    if (view->access)
        fail("%s is mapped twice", name_in_request(buffer, name));
    if (size != buffer->bytes)
        fail("%s is mapped with %u bytes; its mem_size is %u", name_in_request(buffer, name), size, buffer->bytes);
    if (memory != VX_MEMORY_TYPE_HOST || access < VX_READ_ONLY || access > VX_READ_AND_WRITE)
        fail("%s is mapped for access %d, memory type %d", name_in_request(buffer, name), access, memory);
    if (access != VX_READ_ONLY && direction_of(buffer) == VX_INPUT)
        fail("%s is an input, and mapped %s", name_in_request(buffer, name), access_name(access));
    if (access != VX_WRITE_ONLY && buffer->version == 0)
        fail("%s is mapped %s, and nobody has ever written it", name_in_request(buffer, name), access_name(access));
}

/* What the view shows already is not copied again: while it was closed nobody can have changed it. */
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

vx_status tivxMemBufferMap(void *pointer, uint32_t size, vx_enum memory, vx_enum access)
{
    struct buffer *buffer = parameter_at(pointer, "tivxMemBufferMap");
    const enum core core = core_self();
    struct view *view = &buffer->views[core];
    check_map(buffer, view, size, memory, access);
    const int current = access == VX_READ_ONLY && view->version == buffer->version;
    view->access = access;
    view->request = request_running()->number;
    if (!current) {
        open_rows(buffer, core, PROT_READ | PROT_WRITE);
        fill(buffer, view, pointer);
    }
    if (access == VX_READ_ONLY)
        open_rows(buffer, core, PROT_READ);
    return VX_SUCCESS;
}

static void write_back(struct buffer *buffer, struct view *view, const uint8_t *first)
{
    char name[LABEL];
    for (size_t row = 0; row < buffer->rows; ++row) {
        const uint8_t *start = first + row * buffer->stride;
        if (!row_is_alone(buffer, view, start, row))
            fail("%s: something was written between rows, next to row %zu", name_in_request(buffer, name), row);
        memcpy(buffer->store + row * buffer->row_bytes, start, buffer->row_bytes);
    }
    view->version = ++buffer->version;
    view->written += 1;
}

vx_status tivxMemBufferUnmap(void *pointer, uint32_t size, vx_enum memory, vx_enum access)
{
    char name[LABEL];
    struct buffer *buffer = parameter_at(pointer, "tivxMemBufferUnmap");
    const enum core core = core_self();
    struct view *view = &buffer->views[core];
    if (!view->access)
        fail("%s is unmapped without being mapped", name_in_request(buffer, name));
    if (size != buffer->bytes)
        fail("%s is unmapped with %u bytes; its mem_size is %u", name_in_request(buffer, name), size, buffer->bytes);
    if (access != view->access || memory != VX_MEMORY_TYPE_HOST)
        fail("%s is unmapped %s, memory type %d; mapped it was %s", name_in_request(buffer, name), access_name(access),
             memory, access_name(view->access));
    if (access != VX_READ_ONLY)
        write_back(buffer, view, pointer);
    close_rows(buffer, core);
    view->access = 0;
    return VX_SUCCESS;
}

void memory_check_unmapped(const struct request *request)
{
    char name[LABEL];
    for (int i = 0; i < request->count; ++i) {
        const struct buffer *buffer = request->references[i]->buffer;
        if (buffer && buffer->views[core_self()].access)
            fail("%s is still mapped when the callback returns", name_in_request(buffer, name));
    }
}

static const char *state_of(const struct view *view)
{
    if (view->access)
        return "which it writes to, mapped VX_READ_ONLY";
    const struct request *request = request_running();
    return request && view->request == request->number ? "after unmapping it" : "without mapping it";
}

/* Where in a view, as rows; `offset` from the beginning of row 0. */
static void explain_view(const struct buffer *buffer, enum window window, ptrdiff_t offset)
{
    char name[LABEL];
    name_in_request(buffer, name);
    const struct view *view = &buffer->views[window];
    if (core_self() != (enum core)window)
        fail("touches the view of %s that %s has", name, core_name((enum core)window));
    if (offset < 0)
        fail("touches %s %zd bytes before row 0", name, -offset);
    const size_t row = (size_t)offset / buffer->stride, byte = (size_t)offset % buffer->stride;
    if (row >= buffer->rows)
        fail("touches %s at row %zu, byte %zu; it has %u rows", name, row, byte, buffer->rows);
    if (byte >= buffer->row_bytes && view->access)
        fail("touches %s %zu bytes behind the last of row %zu (stride[1] is %u)", name, byte - buffer->row_bytes + 1,
             row, buffer->stride);
    fail("touches %s at row %zu, byte %zu, %s", name, row, byte, state_of(view));
}

static void explain_buffer(const struct buffer *buffer, const uint8_t *address)
{
    char name[LABEL];
    const enum window window = (enum window)((size_t)(address - buffer->region) / buffer->window_bytes);
    name_in_request(buffer, name);
    if (buffer->dead)
        fail("touches %s after it was released", name);
    if (window >= SHARED)
        fail("uses %s of %s as a pointer, not tivxMemShared2TargetPtr", window == SHARED ? "shared_ptr" : "host_ptr",
             name);
    explain_view(buffer, window, address - buffer_window(buffer, window));
}

void memory_explain(const uint8_t *address)
{
    for (const struct buffer *buffer = atomic_load(&buffers); buffer; buffer = buffer->next)
        if (address >= buffer->region && address < buffer->region + WINDOWS * buffer->window_bytes)
            explain_buffer(buffer, address);
}

static struct sigaction before;

/* What is not the double's is left to who was asked before, when the access is tried again. */
static void explain_fault(int signal, siginfo_t *information, void *unused)
{
    (void)unused;
    memory_explain(information->si_addr);
    heap_explain(information->si_addr);
    sigaction(signal, &before, NULL);
}

void memory_watch(void)
{
    struct sigaction action = {.sa_sigaction = explain_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
}

void memory_unwatch(void)
{
    sigaction(SIGSEGV, &before, NULL);
}
