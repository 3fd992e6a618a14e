/* Kernels on cores: what is registered, the instances of graphs' nodes, and what holds of every callback. */
#ifndef TARGET_H
#define TARGET_H

#include <TI/tivx_target_kernel.h>

#include "core.h"

enum { MAX_TARGET_KERNELS = 256, MAX_INSTANCES = 64 }; /* tivx_config_j721e.h */

/* An instance of a core's kernel, to be created by a request. */
vx_status instance_open(const char *kernel, enum core core, tivx_target_kernel_instance *instance);
void instance_close(tivx_target_kernel_instance instance);

/* By the core: calls back, and sees to it that nothing is left behind. */
void target_execute(struct request *request);

/* What runs on this thread; NULL: no callback does. */
const struct request *request_running(void);

/* "org.harness.qgemm on DSP_C7-1, process: ", or nothing where no callback runs; the length. */
size_t request_label(char *text, size_t room);

/* At the end: nothing may be registered any more. */
void target_check_empty(void);

#endif
