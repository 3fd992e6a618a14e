/* Kernels on cores: what is registered, the instances of graphs' nodes, and what holds of every callback. */
#ifndef TARGET_H
#define TARGET_H

#include <TI/tivx_target_kernel.h>

#include "request.h"

enum { MAX_TARGET_KERNELS = 256, MAX_INSTANCES = 64 }; /* tivx_config_j721e.h */

/* An instance of a core's kernel, to be created by a request; closed it is NULL. */
vx_status instance_open(const char *kernel, enum core core, tivx_target_kernel_instance *instance);
void instance_close(tivx_target_kernel_instance *instance);

/* Executes the callback on the core and checks that it leaves nothing allocated. */
void target_execute(struct request *request);

/* At the end: nothing may be registered any more. */
void target_check_empty(void);

#endif
