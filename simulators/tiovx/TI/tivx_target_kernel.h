/* Interface of TIOVX for kernels on a target, see tivx.h. */
#ifndef TI_TIVX_TARGET_KERNEL_H
#define TI_TIVX_TARGET_KERNEL_H

#include <TI/tivx_obj_desc.h>

typedef struct _tivx_target_kernel *tivx_target_kernel;
typedef struct _tivx_target_kernel_instance *tivx_target_kernel_instance;

typedef vx_status(VX_CALLBACK *tivx_target_kernel_f)(tivx_target_kernel_instance kernel,
                                                     tivx_obj_desc_t *parameters[], uint16_t count, void *context);
typedef vx_status(VX_CALLBACK *tivx_target_kernel_control_f)(tivx_target_kernel_instance kernel, uint32_t command,
                                                             tivx_obj_desc_t *references[], uint16_t count,
                                                             void *context);

VX_API_ENTRY tivx_target_kernel tivxAddTargetKernelByName(const char *kernel, const char *target,
                                                          tivx_target_kernel_f process, tivx_target_kernel_f create,
                                                          tivx_target_kernel_f destroy,
                                                          tivx_target_kernel_control_f control, void *context);
VX_API_ENTRY vx_status tivxRemoveTargetKernel(tivx_target_kernel kernel);
VX_API_ENTRY vx_status tivxSetTargetKernelInstanceContext(tivx_target_kernel_instance kernel, void *context,
                                                          uint32_t size);
VX_API_ENTRY vx_status tivxGetTargetKernelInstanceContext(tivx_target_kernel_instance kernel, void **context,
                                                          uint32_t *size);

#endif
