/* The part of TIOVX (Texas Instruments) that the harness calls on the A72, declared for the double: see ../double.h. */
#ifndef TI_TIVX_H
#define TI_TIVX_H

#include <VX/vx.h>
#include <VX/vx_khr_user_data_object.h>

#define TIVX_TARGET_DSP_C7_1 "DSP_C7-1"
#define TIVX_TARGET_MPU_0 "MPU-0"

VX_API_ENTRY vx_status tivxRegisterModule(const char *name, vx_publish_kernels_f publish,
                                          vx_unpublish_kernels_f unpublish);
VX_API_ENTRY vx_status tivxUnRegisterModule(const char *name);
VX_API_ENTRY vx_status tivxAddKernelTarget(vx_kernel kernel, const char *target);
VX_API_ENTRY vx_status tivxNodeSendCommand(vx_node node, uint32_t replicated_node, uint32_t command,
                                           vx_reference references[], uint32_t count);

#endif
