#include "mapping.h"

#include <stdio.h>

#include "buffer.h"

enum { LABEL = 400 };

/* As the request knows a buffer; -1: it does not. */
static int index_of(const struct buffer *buffer, const struct request *request)
{
    for (int i = 0; request && i < request->count; ++i)
        if (request->buffers[i] == buffer)
            return i;
    return -1;
}

/* "parameter 2 (tensor 5)", as the request that runs knows a buffer. */
static const char *name_in_request(const struct buffer *buffer, char text[LABEL])
{
    const int index = index_of(buffer, running.request);
    if (index < 0)
        snprintf(text, LABEL, "%s%s", buffer->label, running.request ? " (no parameter of it)" : "");
    else
        snprintf(text, LABEL, "parameter %d (%s)", index, buffer->label);
    return text;
}

/* The parameter whose window begins at an address; NULL: none. */
static struct buffer *parameter_at(uintptr_t address, enum window window, const char *function)
{
    const struct request *request = request_calling(function);
    for (int i = 0; i < request->count; ++i)
        if (request->buffers[i] && (uintptr_t)buffer_window(request->buffers[i], window) == address)
            return request->buffers[i];
    return NULL;
}

static struct buffer *parameter_of_view(const void *pointer, const char *function)
{
    struct buffer *buffer = parameter_at((uintptr_t)pointer, (enum window)running.core, function);
    if (!buffer)
        fail("%s: %p is where no parameter's buffer begins", function, pointer);
    return buffer;
}

void *tivxMemShared2TargetPtr(const tivx_shared_mem_ptr_t *shared)
{
    const struct buffer *buffer = parameter_at(shared ? shared->shared_ptr : 0, SHARED, "tivxMemShared2TargetPtr");
    if (!buffer)
        fail("tivxMemShared2TargetPtr: the address is no parameter's");
    return buffer_window(buffer, (enum window)running.core);
}

static const char *access_name(vx_enum access)
{
    static const char *const names[] = {"nothing", "VX_READ_ONLY", "VX_WRITE_ONLY", "VX_READ_AND_WRITE"};
    return access >= 0 && access <= VX_READ_AND_WRITE ? names[access] : "no access that there is";
}

static int is_input(const struct buffer *buffer, const struct request *request)
{
    return request->directions && request->directions[index_of(buffer, request)] == VX_INPUT;
}

static void check_map(const struct buffer *buffer, uint32_t size, vx_enum memory, vx_enum access)
{
    char name[LABEL];
    name_in_request(buffer, name);
    if (buffer->views[running.core].access)
        fail("%s is mapped twice", name);
    if (size != buffer->bytes)
        fail("%s is mapped with %u bytes; its mem_size is %u", name, size, buffer->bytes);
    if (memory != VX_MEMORY_TYPE_HOST || access < VX_READ_ONLY || access > VX_READ_AND_WRITE)
        fail("%s is mapped for access %d, memory type %d", name, access, memory);
    if (access != VX_READ_ONLY && is_input(buffer, running.request))
        fail("%s is an input, and mapped %s", name, access_name(access));
    if (access != VX_WRITE_ONLY && buffer->version == 0)
        fail("%s is mapped %s, and nobody has ever written it", name, access_name(access));
}

vx_status tivxMemBufferMap(void *pointer, uint32_t size, vx_enum memory, vx_enum access)
{
    struct buffer *buffer = parameter_of_view(pointer, "tivxMemBufferMap");
    check_map(buffer, size, memory, access);
    view_open(buffer, running.core, access);
    buffer->views[running.core].request = running.request->number;
    return VX_SUCCESS;
}

vx_status tivxMemBufferUnmap(void *pointer, uint32_t size, vx_enum memory, vx_enum access)
{
    char name[LABEL];
    struct buffer *buffer = parameter_of_view(pointer, "tivxMemBufferUnmap");
    const vx_enum mapped = buffer->views[running.core].access;
    name_in_request(buffer, name);
    if (!mapped)
        fail("%s is unmapped without being mapped", name);
    if (size != buffer->bytes)
        fail("%s is unmapped with %u bytes; its mem_size is %u", name, size, buffer->bytes);
    if (access != mapped || memory != VX_MEMORY_TYPE_HOST)
        fail("%s is unmapped %s, memory type %d; mapped it was %s", name, access_name(access), memory,
             access_name(mapped));
    const size_t row = view_close(buffer, running.core);
    if (row < buffer->rows)
        fail("%s: something was written between rows, next to row %zu", name, row);
    return VX_SUCCESS;
}

void mapping_check_closed(const struct request *request)
{
    char name[LABEL];
    for (int i = 0; i < request->count; ++i)
        if (request->buffers[i] && request->buffers[i]->views[running.core].access)
            fail("%s is still mapped when the callback returns", name_in_request(request->buffers[i], name));
}

static const char *state_of(const struct view *view)
{
    if (view->access)
        return "which it writes to, mapped VX_READ_ONLY";
    return running.request && view->request == running.request->number ? "after unmapping it" : "without mapping it";
}

/* Prints a position in a view as rows; `offset` is from the beginning of row 0. */
static void explain_view(const struct buffer *buffer, enum core core, ptrdiff_t offset, const char *name)
{
    const struct view *view = &buffer->views[core];
    if (running.core != core)
        fail("touches the view of %s that %s has", name, core_name(core));
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

void mapping_explain(const uint8_t *address)
{
    char name[LABEL];
    const struct buffer *buffer = buffer_around(address);
    if (!buffer)
        return;
    const enum window window = (enum window)((size_t)(address - buffer->region) / buffer->window_bytes);
    name_in_request(buffer, name);
    if (buffer->dead)
        fail("touches %s after it was released", name);
    if (window >= SHARED)
        fail("uses %s of %s as a pointer, not tivxMemShared2TargetPtr", window == SHARED ? "shared_ptr" : "host_ptr",
             name);
    explain_view(buffer, (enum core)window, address - buffer_window(buffer, window), name);
}
