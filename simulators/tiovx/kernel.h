/* The program's side of a kernel: what the A72 knows of it. */
#ifndef KERNEL_H
#define KERNEL_H

#include "object.h"
#include "request.h"

struct _vx_kernel {
    struct _vx_reference base;
    char name[VX_MAX_KERNEL_NAME];
    vx_uint32 parameter_count;
    vx_enum directions[MAX_REFERENCES]; /* 0: not added yet */
    enum kind kinds[MAX_REFERENCES];
    vx_kernel_validate_f validate;
    vx_kernel_initialize_f initialize;
    vx_kernel_deinitialize_f deinitialize;
    int targets[CORES]; /* whether it may run there */
    int finalized, removed;
};

/* At the end: no module may be registered any more. */
void modules_check_empty(void);

#endif
