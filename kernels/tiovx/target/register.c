#include "harness_kernels.h"

#include "callbacks.h"

static const struct {
    const char *name;
    const struct operation *operation;
} kernels[] = {{KERNEL_QUANTIZE_LINEAR, &harness_quantize_linear},
               {KERNEL_QGEMM, &harness_qgemm},
               {KERNEL_QLINEAR_CONV, &harness_qlinear_conv},
               {KERNEL_QLINEAR_GLOBAL_AVERAGE_POOL, &harness_qlinear_global_average_pool},
               {KERNEL_QLINEAR_AVERAGE_POOL, &harness_qlinear_average_pool},
               {KERNEL_MAX_POOL, &harness_max_pool},
               {KERNEL_CODE_PAIRS_1, &harness_code_pairs},
               {KERNEL_CODE_PAIRS_2, &harness_code_pairs},
               {KERNEL_CODES_1, &harness_codes},
               {KERNEL_CODES_2, &harness_codes},
               {KERNEL_CODES_3, &harness_codes},
               {KERNEL_CODES_4, &harness_codes}};

enum { KERNELS = sizeof kernels / sizeof *kernels };

static tivx_target_kernel registered[KERNELS];

int harness_kernels_register(const char *core)
{
    for (int i = 0; i < KERNELS; ++i) {
        registered[i] = tivxAddTargetKernelByName(kernels[i].name, core, harness_process, harness_create,
                                                  harness_delete, harness_control, (void *)kernels[i].operation);
        if (!registered[i])
            return VX_FAILURE;
    }
    return VX_SUCCESS;
}

int harness_kernels_unregister(void)
{
    vx_status status = VX_SUCCESS;
    for (int i = 0; i < KERNELS; ++i) {
        const vx_status removed = registered[i] ? tivxRemoveTargetKernel(registered[i]) : VX_SUCCESS;
        status = status == VX_SUCCESS ? removed : status;
        registered[i] = 0;
    }
    return status;
}
