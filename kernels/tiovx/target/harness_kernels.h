/* The kernels that a core brings to TIOVX: the one call that a firmware, or a program on the A72, makes for them. */
#ifndef HARNESS_KERNELS_H
#define HARNESS_KERNELS_H

/* Registers all kernels on the core that calls, TIVX_TARGET_DSP_C7_1 or TIVX_TARGET_MPU_0; a vx_status. */
int harness_kernels_register(const char *core);

/* Undoes it. */
int harness_kernels_unregister(void);

#endif
