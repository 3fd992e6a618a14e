/* Requests to cores, and what runs on this thread. */
#ifndef REQUEST_H
#define REQUEST_H

#include <TI/tivx_obj_desc.h>

#include "double.h"

enum core { DSP_C7_1, MPU_0, CORES, NO_CORE = CORES };
enum callback { CREATE, PROCESS, DELETE, CONTROL };

/* TIOVX's own limit for the descriptors of a request. */
enum { MAX_REFERENCES = 16 };

/* A question to an instance of a kernel, and its answer. */
struct request {
    enum callback callback;
    uint32_t asked; /* of CONTROL */
    struct _tivx_target_kernel_instance *instance;
    tivx_obj_desc_t *descriptors[MAX_REFERENCES];
    struct buffer *buffers[MAX_REFERENCES]; /* NULL of a scalar */
    const vx_enum *directions;              /* of the references; NULL of CONTROL, which has none */
    uint16_t count;                         /* of references */
    vx_status status;
    uint64_t begin_us, end_us; /* of the callback */
    uint64_t number;           /* of all requests, from 1 */
    int answered;
    struct request *next;
};

/* The request that runs on this thread; its core sets it. */
struct running {
    enum core core;                /* NO_CORE: the thread is the program's */
    const struct request *request; /* NULL: no callback runs */
};

extern THREAD_LOCAL struct running running;

/* The request whose callback calls that function: ends the process if there is none. */
const struct request *request_calling(const char *function);

/* NO_CORE where there is none of that name. */
enum core core_named(const char *name);
const char *core_name(enum core core);

#endif
