/* Objects behind the handles of the stand-in, and the operations that wait in its streams. */
#ifndef OBJECTS_H
#define OBJECTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "image.h"
#include "order.h"
#include "registry.h"

/* Errors that the program does not name. */
constexpr CUresult CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_ILLEGAL_ADDRESS = 700, CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
                   CUDA_ERROR_NOT_SUPPORTED = 801, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
                   CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905, CUDA_ERROR_CAPTURED_EVENT = 907,
                   CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908;

enum Kind { CONTEXT, MODULE, FUNCTION, TABLE, MEMORY, PINNED, STREAM, EVENT, GRAPH, EXECUTABLE };

/* A handle is the address of what it names. */
struct Object {
    Kind kind;
    CUctx_st *context; /* that it belongs to */
    Object *next;
};

struct CUctx_st : Object {
    CUresult error; /* of its work; every later call returns it */
};

struct CUmod_st : Object {
    void *image;
};

struct CUfunc_st : Object {
    CUmod_st *module;
    const simulated_kernel *kernel;
    image_kernel limits;
    size_t dynamic_bytes; /* the most shared memory that a launch may ask for, beside the kernel's own */
};

/* Memory of the GPU, pinned memory of the host, or a table of a module. */
struct Memory : Object {
    unsigned char *begin;
    size_t bytes;
    Accesses accesses;
};

enum { PARAMETER_BYTES = 4096 }; /* CUDA's limit */
enum Action { COPY_IN, COPY_OUT, LAUNCH, RECORD, WAIT, REPLAY };

struct Operation {
    Operation *next;
    Action action;
    void *to;
    const void *from;
    size_t bytes;
    bool pinned; /* the host's side of the copy */
    CUfunction function;
    uint3 grid, block;
    unsigned shared_bytes;
    CUevent event;
    Place place; /* for which it waits */
    CUgraphExec executable;
    alignas(16) unsigned char parameters[PARAMETER_BYTES];
};

struct Queue {
    Operation *first, *last;
};

struct CUgraph_st : Object {
    Queue operations;
};

struct CUgraphExec_st : Object {
    Queue operations;
};

struct CUstream_st : Object {
    Queue operations;
    unsigned slot;     /* the stream's number while it exists */
    Clock clock;       /* what is ordered before its next operation */
    uint64_t released; /* the operations that its worker may perform */
    bool busy;         /* some thread performs one */
    bool has_worker, ends;
    pthread_t worker;
    CUgraph capture; /* what is being recorded; nullptr: nothing */
    pthread_t captured_by;
    bool capture_failed;
};

struct CUevent_st : Object {
    bool timed;
    Place place; /* where it was recorded last; operation 0: nowhere */
    Clock clock; /* what is ordered before that */
    bool captured;
    uint64_t time_ns;
};

#pragma GCC visibility push(hidden)

/* Says it on stderr. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* Memory for the stand-in's own books: zeros. */
void *allocate(size_t bytes);

extern Object *objects;            /* all that there are, the last first */
extern __thread CUcontext current; /* of this thread of the program; nullptr: none */

void add_object(Object *object, Kind kind);
bool is_object(const Object *object, Kind kind);

template <typename T> T *add(Kind kind)
{
    T *const object = (T *)allocate(sizeof(T));
    add_object(object, kind);
    return object;
}

/* The object of a handle of this context; nullptr if there is none. */
template <typename T> T *find(T *handle, Kind kind)
{
    return is_object(handle, kind) ? handle : nullptr;
}

/* Whatever it is. */
void destroy(Object *object);
void destroy_all(Kind kind);

/* False if there is none to be had. */
bool allocate_memory(Kind kind, size_t bytes, void **address);

/* Frees what begins there. */
CUresult free_memory(Kind kind, const void *address);

/* Memory of this context with [address, address + bytes) in it; nullptr if there is none. */
Memory *find_memory(Kind kind, const void *address, size_t bytes);

/* Returns whether the address is memory of the GPU, or of a table. */
bool on_gpu(const void *address, size_t bytes);

/* Returns whether no write was outside an allocation. */
bool check_guards();

/* Reserves operations: streams with at most this number need no allocation, as programs after their initialisation. */
void reserve_operations(unsigned count);

Operation *new_operation(Action action);
void append(Queue *queue, Operation *operation);
Operation *take(Queue *queue);
void discard(Operation *operation);
void copy_all(const Queue *from, Queue *to);

#pragma GCC visibility pop

#endif
