#include "objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

Object *objects;
__thread CUcontext current;

namespace {

constexpr unsigned char UNWRITTEN = 0xa5, GUARD = 0xc3;
constexpr size_t GUARD_BYTES = 256;

Operation *spare; /* operations that are done, or reserved */

void unlink_object(const Object *object)
{
    Object **link = &objects;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
}

bool is_guarded(const Memory *memory)
{
    for (size_t i = 0; i < GUARD_BYTES; ++i)
        if (memory->begin[-1 - (ptrdiff_t)i] != GUARD || memory->begin[memory->bytes + i] != GUARD)
            return false;
    return true;
}

void discard_all(Queue *queue)
{
    while (queue->first != nullptr)
        discard(take(queue));
}

} // namespace

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("host-simulation of CUDA: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void *allocate(size_t bytes)
{
    void *const memory = calloc(1, bytes);
    if (memory == nullptr) {
        complain("no memory");
        abort();
    }
    return memory;
}

void add_object(Object *object, Kind kind)
{
    object->kind = kind;
    object->context = current;
    object->next = objects;
    objects = object;
}

bool is_object(const Object *handle, Kind kind)
{
    for (const Object *object = objects; object != nullptr; object = object->next)
        if (object == handle && object->kind == kind && (kind == CONTEXT || object->context == current))
            return true;
    return false;
}

Memory *find_memory(Kind kind, const void *address, size_t bytes)
{
    const unsigned char *const begin = (const unsigned char *)address;
    for (Object *object = objects; object != nullptr; object = object->next) {
        Memory *const memory = (Memory *)object;
        if (object->kind == kind && object->context == current && begin >= memory->begin &&
            bytes <= memory->bytes && (size_t)(begin - memory->begin) <= memory->bytes - bytes)
            return memory;
    }
    return nullptr;
}

bool on_gpu(const void *address, size_t bytes)
{
    return find_memory(MEMORY, address, bytes) != nullptr || find_memory(TABLE, address, bytes) != nullptr;
}

/* Operations */

void reserve_operations(unsigned count)
{
    for (unsigned i = 0; i < count; ++i)
        discard((Operation *)allocate(sizeof(Operation)));
}

Operation *new_operation(Action action)
{
    Operation *const operation = spare != nullptr ? spare : (Operation *)allocate(sizeof *operation);
    spare = operation->next;
    operation->next = nullptr;
    operation->action = action;
    return operation;
}

void append(Queue *queue, Operation *operation)
{
    *(queue->first == nullptr ? &queue->first : &queue->last->next) = operation;
    queue->last = operation;
}

Operation *take(Queue *queue)
{
    Operation *const operation = queue->first;
    queue->first = operation->next;
    return operation;
}

void discard(Operation *operation)
{
    operation->next = spare;
    spare = operation;
}

void copy_all(const Queue *from, Queue *to)
{
    for (const Operation *operation = from->first; operation != nullptr; operation = operation->next) {
        Operation *const copy = new_operation(operation->action);
        memcpy((void *)copy, operation, sizeof *copy);
        copy->next = nullptr;
        append(to, copy);
    }
}

/* Memory, between guards that nobody may touch. */

bool allocate_memory(Kind kind, size_t bytes, void **address)
{
    const size_t whole = (bytes + 2 * GUARD_BYTES + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
    unsigned char *const begin = bytes < SIZE_MAX / 2 ? (unsigned char *)aligned_alloc(GUARD_BYTES, whole) : nullptr;
    if (begin == nullptr)
        return false;
    memset(begin, GUARD, whole);
    memset(begin + GUARD_BYTES, UNWRITTEN, bytes);
    Memory *const memory = add<Memory>(kind);
    memory->begin = begin + GUARD_BYTES;
    memory->bytes = bytes;
    *address = memory->begin;
    return true;
}

bool check_guards()
{
    for (const Object *object = objects; object != nullptr; object = object->next) {
        const Memory *const memory = (const Memory *)object;
        if ((object->kind != MEMORY && object->kind != PINNED) || is_guarded(memory))
            continue;
        complain("something was written outside an allocation of %zu bytes of %s", memory->bytes,
                 object->kind == MEMORY ? "the GPU" : "the host");
        return false;
    }
    return true;
}

CUresult free_memory(Kind kind, const void *address)
{
    Memory *const memory = find_memory(kind, address, 0);
    if (memory == nullptr || memory->begin != address)
        return CUDA_ERROR_INVALID_VALUE;
    wait_until_idle();
    const bool intact = check_guards();
    unlink_object(memory);
    free(memory->begin - GUARD_BYTES);
    free(memory);
    return intact ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

void destroy(Object *object)
{
    wait_until_idle();
    unlink_object(object);
    switch (object->kind) {
    case MODULE: free(((CUmodule)object)->image); break;
    case MEMORY:
    case PINNED: free(((Memory *)object)->begin - GUARD_BYTES); break;
    case STREAM:
        close_stream((CUstream)object);
        discard_all(&((CUstream)object)->operations);
        break;
    case GRAPH: discard_all(&((CUgraph)object)->operations); break;
    case EXECUTABLE: discard_all(&((CUgraphExec)object)->operations); break;
    default: break;
    }
    free(object);
}

void destroy_all(Kind kind)
{
    for (Object *object = objects; object != nullptr;) {
        Object *const next = object->next;
        if (object->kind == kind && object->context == current)
            destroy(object);
        object = next;
    }
}
