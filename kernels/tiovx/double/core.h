/* The cores: a thread each, with a queue, which answers one request at a time. */
#ifndef CORE_H
#define CORE_H

#include <TI/tivx_obj_desc.h>

enum core { DSP_C7_1, MPU_0, CORES, NO_CORE = CORES };
enum callback { CREATE, PROCESS, DELETE, CONTROL };

/* TIOVX's own limit for the descriptors of a request. */
enum { MAX_REFERENCES = 16 };

struct data;

/* A question to an instance of a kernel, and its answer. */
struct request {
    enum callback callback;
    uint32_t asked; /* of CONTROL */
    struct _tivx_target_kernel_instance *instance;
    struct data *references[MAX_REFERENCES];
    const vx_enum *directions; /* of the references; NULL of CONTROL, which has none */
    uint16_t count;
    vx_status status;
    uint64_t begin_us, end_us; /* of the callback */
    uint64_t number; /* of all requests, from 1 */
    int answered;
    struct request *next;
};

void cores_start(void);
/* When nobody waits for an answer any more. */
void cores_stop(void);

/* NO_CORE where there is none of that name. */
enum core core_named(const char *name);
const char *core_name(enum core core);

/* The core that runs this thread; NO_CORE: it is the program's. */
enum core core_self(void);

/* Waits for the answer; its status. */
vx_status core_ask(enum core core, struct request *request);

#endif
