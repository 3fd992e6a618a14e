/* References: what the program makes and releases.
 *
 * An object lives while the program or another object holds it.  The struct itself stays for ever, so that a handle
 * that is used too late is recognised.
 */
#ifndef OBJECT_H
#define OBJECT_H

#include <TI/tivx_obj_desc.h>
#include <VX/vx_khr_user_data_object.h>
#include <stdatomic.h>

#include "double.h"

enum kind { CONTEXT, KERNEL, GRAPH, NODE, TENSOR, SCALAR, USER_DATA_OBJECT, NO_OBJECT, KINDS };

struct _vx_reference {
    uint32_t magic;
    enum kind kind;
    int external, internal; /* held by the program, by objects */
    atomic_int busy;        /* graphs and requests that run with it */
    vx_status status;       /* of NO_OBJECT, which stands for one that could not be made */
    char label[VX_MAX_KERNEL_NAME + 32];
    void (*destroy)(struct _vx_reference *);
    struct _vx_reference *next;
};

struct _vx_context {
    struct _vx_reference base;
};

/* A possible parameter of a kernel. */
struct data {
    struct _vx_reference base;
    union {
        tivx_obj_desc_t any;
        tivx_obj_desc_tensor_t tensor;
        tivx_obj_desc_scalar_t scalar;
        tivx_obj_desc_user_data_object_t object;
    } descriptor;
    struct buffer *buffer;            /* NULL of a scalar */
    char type[VX_MAX_REFERENCE_NAME]; /* of a user data object */
    vx_int8 fixed_point_position;     /* of a tensor */
    vx_status unasked;                /* of a node that failed to write it, and whose status nobody has asked for */
};

/* A new object, held by the program; `bytes` of its struct. */
void *object_new(enum kind kind, size_t bytes, void (*destroy)(struct _vx_reference *));

/* Stands for an object that could not be made. */
void *no_object(vx_status status);

/* Returns whether a handle is of an existing object of that kind; prints a message if not. */
int is_alive(const void *handle, enum kind kind, const char *function);

/* Another object holds it, and no longer does. */
void object_hold(void *object);
void object_drop(void *object);

/* Adds or removes a reference by the program; removal sets the handle to NULL. */
void object_hold_for_program(void *object);
vx_status object_release(void *handle, enum kind kind, const char *function);

/* As if the program had released it everywhere. */
void object_forget(void *object);

unsigned objects_alive(enum kind kind);

/* Tells of all that the program still holds, but for contexts. */
void objects_check_released(const char *function);

/* The kind of a VX_TYPE_...; KINDS if there is none that kernels are given. */
enum kind kind_of_type(vx_enum type);

/* A value for the program. */
vx_status give(void *value, vx_size size, const void *from, vx_size bytes, const char *what);

#endif
