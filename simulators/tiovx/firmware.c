#include "firmware.h"

#include <TI/tivx.h>

#ifdef FIRMWARE_KERNELS
#include "harness_kernels.h"
#else
#define harness_kernels_register(core) VX_SUCCESS
#define harness_kernels_unregister() VX_SUCCESS
#endif

void firmware_start(enum core core)
{
    if (core == DSP_C7_1 && harness_kernels_register(TIVX_TARGET_DSP_C7_1) != VX_SUCCESS)
        fail("the firmware cannot register its kernels");
}

void firmware_end(enum core core)
{
    if (core == DSP_C7_1 && harness_kernels_unregister() != VX_SUCCESS)
        fail("the firmware cannot withdraw its kernels");
}
