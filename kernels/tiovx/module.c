#include "module.h"

#include <stdbool.h>
#include <string.h>

#include "protocol.h"

enum { DIMS = 2 };

/* Parameters that a kernel accepts. */
struct signature {
    vx_size width, rows, result[DIMS]; /* width: of all sources together */
    vx_enum given, made;
};

static vx_status read_constants(vx_reference reference, struct head *head)
{
    vx_user_data_object object = (vx_user_data_object)reference;
    char type[VX_MAX_REFERENCE_NAME];
    vx_status status = vxQueryUserDataObject(object, VX_USER_DATA_OBJECT_NAME, type, sizeof type);
    if (status != VX_SUCCESS || strcmp(type, TYPE_CONSTANTS) != 0)
        return status != VX_SUCCESS ? status : VX_ERROR_INVALID_TYPE;
    status = vxCopyUserDataObject(object, 0, sizeof *head, head, VX_READ_ONLY, VX_MEMORY_TYPE_HOST);
    return status == VX_SUCCESS && head->version != KERNELS_VERSION ? VX_ERROR_INVALID_VALUE : status;
}

static vx_status query_tensor(vx_reference reference, vx_size dims[DIMS], vx_enum *type)
{
    vx_tensor tensor = (vx_tensor)reference;
    vx_size count = 0;
    vx_status status = vxQueryTensor(tensor, VX_TENSOR_NUMBER_OF_DIMS, &count, sizeof count);
    if (status == VX_SUCCESS && count != DIMS)
        status = VX_ERROR_INVALID_DIMENSION;
    if (status == VX_SUCCESS)
        status = vxQueryTensor(tensor, VX_TENSOR_DIMS, dims, DIMS * sizeof *dims);
    if (status == VX_SUCCESS)
        status = vxQueryTensor(tensor, VX_TENSOR_DATA_TYPE, type, sizeof *type);
    return status;
}

static vx_status describe(vx_meta_format meta, const vx_size dims[DIMS], vx_enum type)
{
    const vx_size count = DIMS;
    const vx_int8 position = 0;
    vx_status status = vxSetMetaFormatAttribute(meta, VX_TENSOR_NUMBER_OF_DIMS, &count, sizeof count);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(meta, VX_TENSOR_DIMS, dims, DIMS * sizeof *dims);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(meta, VX_TENSOR_DATA_TYPE, &type, sizeof type);
    if (status == VX_SUCCESS)
        status = vxSetMetaFormatAttribute(meta, VX_TENSOR_FIXED_POINT_POSITION, &position, sizeof position);
    return status;
}

static bool is_code(vx_enum type)
{
    return type == VX_TYPE_UINT8 || type == VX_TYPE_INT8;
}

/* Checks the parameters of a kernel: the result has as many rows, of the width and type in its constants. */
static vx_status check(const struct signature *found, const struct head *head, bool quantizes)
{
    const bool to_float = head->bytes[MULTIPLIER] > 0;
    if (found->width != head->depth || found->result[0] != head->width || found->rows != found->result[1])
        return VX_ERROR_INVALID_DIMENSION;
    if (quantizes ? found->given != VX_TYPE_FLOAT32 : !is_code(found->given))
        return VX_ERROR_INVALID_TYPE;
    return (to_float ? found->made == VX_TYPE_FLOAT32 : is_code(found->made)) ? VX_SUCCESS : VX_ERROR_INVALID_TYPE;
}

/* All have the type of the first, and as many rows. */
static vx_status query_sources(const vx_reference parameters[], vx_uint32 count, struct signature *found)
{
    vx_size dims[DIMS];
    vx_enum type;
    vx_status status = query_tensor(parameters[SOURCE], dims, &found->given);
    found->width = 0, found->rows = dims[1];
    for (vx_uint32 i = 0; i <= count - PARAMETERS && status == VX_SUCCESS; ++i) {
        status = query_tensor(parameters[source_parameter(i)], dims, &type);
        if (status == VX_SUCCESS && (type != found->given || dims[1] != found->rows))
            status = VX_ERROR_INVALID_TYPE;
        found->width += dims[0];
    }
    return status;
}

static vx_status validate(const vx_reference parameters[], vx_uint32 count, vx_meta_format metas[], bool quantizes)
{
    struct head head;
    struct signature found;
    if (count < PARAMETERS)
        return VX_ERROR_INVALID_PARAMETERS;
    vx_status status = read_constants(parameters[CONSTANTS], &head);
    if (status == VX_SUCCESS)
        status = query_sources(parameters, count, &found);
    if (status == VX_SUCCESS)
        status = query_tensor(parameters[RESULT], found.result, &found.made);
    if (status == VX_SUCCESS)
        status = check(&found, &head, quantizes);
    if (status == VX_SUCCESS)
        status = describe(metas[RESULT], (vx_size[DIMS]){head.width, found.rows}, found.made);
    return status;
}

static vx_status VX_CALLBACK validate_quantize_linear(vx_node node, const vx_reference parameters[], vx_uint32 count,
                                                      vx_meta_format metas[])
{
    (void)node;
    return validate(parameters, count, metas, true);
}

static vx_status VX_CALLBACK validate_codes(vx_node node, const vx_reference parameters[], vx_uint32 count,
                                            vx_meta_format metas[])
{
    (void)node;
    return validate(parameters, count, metas, false);
}

/* Nothing is to be set up on the A72: the constants are the node's own when it is made. */
static vx_status VX_CALLBACK initialize(vx_node node, const vx_reference parameters[], vx_uint32 count)
{
    (void)node, (void)parameters;
    return count >= PARAMETERS ? VX_SUCCESS : VX_ERROR_INVALID_PARAMETERS;
}

static const struct {
    const char *name;
    vx_kernel_validate_f validate;
    unsigned sources;
} kernels[] = {{KERNEL_QUANTIZE_LINEAR, validate_quantize_linear, 1},
               {KERNEL_QGEMM, validate_codes, 1},
               {KERNEL_QLINEAR_CONV, validate_codes, 1},
               {KERNEL_QLINEAR_GLOBAL_AVERAGE_POOL, validate_codes, 1},
               {KERNEL_QLINEAR_AVERAGE_POOL, validate_codes, 1},
               {KERNEL_MAX_POOL, validate_codes, 1},
               {KERNEL_CODE_PAIRS_1, validate_codes, 1},
               {KERNEL_CODE_PAIRS_2, validate_codes, 2},
               {KERNEL_CODES_1, validate_codes, 1},
               {KERNEL_CODES_2, validate_codes, 2},
               {KERNEL_CODES_3, validate_codes, 3},
               {KERNEL_CODES_4, validate_codes, 4}};

enum { KERNELS = sizeof kernels / sizeof *kernels };

static vx_kernel published[KERNELS];

static vx_status add_parameters(vx_kernel kernel, unsigned sources)
{
    static const struct {
        vx_enum direction, type;
    } parameters[PARAMETERS] = {[CONSTANTS] = {VX_INPUT, VX_TYPE_USER_DATA_OBJECT},
                                [VECTORS] = {VX_INPUT, VX_TYPE_SCALAR},
                                [SOURCE] = {VX_INPUT, VX_TYPE_TENSOR},
                                [RESULT] = {VX_OUTPUT, VX_TYPE_TENSOR}};
    vx_status status = VX_SUCCESS;
    for (vx_uint32 i = 0; i < parameter_count(sources) && status == VX_SUCCESS; ++i) {
        const unsigned like = i < PARAMETERS ? i : SOURCE;
        status = vxAddParameterToKernel(kernel, i, parameters[like].direction, parameters[like].type,
                                        VX_PARAMETER_STATE_REQUIRED);
    }
    return status;
}

static vx_status add_targets(vx_kernel kernel)
{
    const vx_status status = tivxAddKernelTarget(kernel, TIVX_TARGET_DSP_C7_1);
    return status == VX_SUCCESS ? tivxAddKernelTarget(kernel, TIVX_TARGET_MPU_0) : status;
}

/* Without a host function: the kernel is one of a target. */
static vx_status publish(vx_context context, size_t which)
{
    vx_enum id;
    vx_status status = vxAllocateUserKernelId(context, &id);
    if (status != VX_SUCCESS)
        return status;
    vx_kernel kernel = vxAddUserKernel(context, kernels[which].name, id, NULL, parameter_count(kernels[which].sources),
                                       kernels[which].validate, initialize, initialize);
    status = vxGetStatus((vx_reference)kernel);
    if (status != VX_SUCCESS)
        return status;
    published[which] = kernel;
    status = add_parameters(kernel, kernels[which].sources);
    if (status == VX_SUCCESS)
        status = add_targets(kernel);
    return status == VX_SUCCESS ? vxFinalizeKernel(kernel) : status;
}

static vx_status VX_CALLBACK publish_all(vx_context context)
{
    vx_status status = VX_SUCCESS;
    for (size_t i = 0; i < KERNELS && status == VX_SUCCESS; ++i)
        status = publish(context, i);
    return status;
}

static vx_status VX_CALLBACK unpublish_all(vx_context context)
{
    vx_status status = VX_SUCCESS;
    (void)context;
    for (size_t i = 0; i < KERNELS; ++i) {
        const vx_status removed = published[i] ? vxRemoveKernel(published[i]) : VX_SUCCESS;
        status = status == VX_SUCCESS ? removed : status;
        published[i] = NULL;
    }
    return status;
}

vx_status module_load(vx_context context)
{
    const vx_status status = tivxRegisterModule(MODULE, publish_all, unpublish_all);
    return status == VX_SUCCESS ? vxLoadKernels(context, MODULE) : status;
}

vx_status module_unload(vx_context context)
{
    const vx_status status = vxUnloadKernels(context, MODULE);
    return status == VX_SUCCESS ? tivxUnRegisterModule(MODULE) : status;
}
