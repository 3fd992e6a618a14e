#include "callbacks.h"

#include <string.h>

#include "identity.h"

/* The first parameter that is the same object: a kernel with several sources may have one of them twice. */
static unsigned first_of(tivx_obj_desc_t *const parameters[], unsigned parameter)
{
    unsigned first = 0;
    while (parameters[first] != parameters[parameter])
        ++first;
    return first;
}

/* Returns whether to map a parameter: all but the number of vectors are buffers, each of which is mapped once. */
static int is_mapped(tivx_obj_desc_t *const parameters[], unsigned parameter)
{
    return parameter != VECTORS && first_of(parameters, parameter) == parameter;
}

static vx_enum access_of(unsigned parameter)
{
    return parameter == RESULT ? VX_WRITE_ONLY : VX_READ_ONLY;
}

static const tivx_shared_mem_ptr_t *memory_of(const tivx_obj_desc_t *parameter, uint32_t *bytes)
{
    if (parameter->type == TIVX_OBJ_DESC_TENSOR) {
        const tivx_obj_desc_tensor_t *tensor = (const tivx_obj_desc_tensor_t *)parameter;
        *bytes = tensor->mem_size;
        return &tensor->mem_ptr;
    }
    const tivx_obj_desc_user_data_object_t *object = (const tivx_obj_desc_user_data_object_t *)parameter;
    *bytes = object->mem_size;
    return &object->mem_ptr;
}

/* Makes what others wrote visible, or what is written visible to others. */
static vx_status map(const tivx_obj_desc_t *parameter, vx_enum access, void **mapped)
{
    uint32_t bytes;
    *mapped = tivxMemShared2TargetPtr(memory_of(parameter, &bytes));
    return *mapped ? tivxMemBufferMap(*mapped, bytes, VX_MEMORY_TYPE_HOST, access) : (vx_status)VX_FAILURE;
}

static vx_status unmap(const tivx_obj_desc_t *parameter, vx_enum access, void *mapped)
{
    uint32_t bytes;
    memory_of(parameter, &bytes);
    return tivxMemBufferUnmap(mapped, bytes, VX_MEMORY_TYPE_HOST, access);
}

static int has_types(tivx_obj_desc_t *const parameters[], uint16_t count)
{
    static const uint16_t types[PARAMETERS] = {TIVX_OBJ_DESC_USER_DATA_OBJECT, TIVX_OBJ_DESC_SCALAR,
                                               TIVX_OBJ_DESC_TENSOR, TIVX_OBJ_DESC_TENSOR};
    if (count < PARAMETERS || count > MOST_PARAMETERS)
        return 0;
    for (unsigned i = 0; i < count; ++i)
        if (!parameters[i] || parameters[i]->type != types[i < PARAMETERS ? i : SOURCE])
            return 0;
    return 1;
}

static int is_whole(const struct head *constants, uint32_t bytes)
{
    return bytes >= ALIGNMENT && constants->version == KERNELS_VERSION && part_start(constants, PARTS) <= bytes;
}

/* A tensor of `width` elements of `element` bytes to a row, and of enough rows. */
static int fits(const tivx_obj_desc_tensor_t *tensor, uint32_t width, uint32_t element, uint32_t vectors)
{
    return element && tensor->number_of_dimensions == 2 && tensor->dimensions[0] == width &&
           tensor->stride[0] == element && tensor->dimensions[1] >= vectors &&
           tensor->stride[1] >= width * element;
}

/* The sources, whose rows have `given` elements together. */
static int read_sources(struct work *work, tivx_obj_desc_t *const parameters[], void *const mapped[], uint32_t given,
                        uint32_t element)
{
    uint32_t width = 0;
    for (uint32_t i = 0; i < work->source_count; ++i) {
        const unsigned which = source_parameter(i);
        const tivx_obj_desc_tensor_t *source = (const tivx_obj_desc_tensor_t *)parameters[which];
        work->sources[i] = (struct rows){mapped[first_of(parameters, which)], source->stride[1]};
        work->widths[i] = source->dimensions[0];
        if (!fits(source, work->widths[i], element, work->vectors))
            return 0;
        width += work->widths[i];
    }
    return width == given;
}

/* With all buffers mapped, and everything checked that could lead out of them. */
static vx_status compute(struct work *work, const struct operation *operation, tivx_obj_desc_t *const parameters[],
                         void *const mapped[])
{
    const tivx_obj_desc_tensor_t *result = (const tivx_obj_desc_tensor_t *)parameters[RESULT];
    const struct head *constants = mapped[CONSTANTS];
    uint32_t bytes;
    memory_of(parameters[CONSTANTS], &bytes);
    work->constants = constants;
    work->vectors = ((const tivx_obj_desc_scalar_t *)parameters[VECTORS])->data.u32;
    work->result = (struct rows){mapped[RESULT], result->stride[1]};
    const uint32_t given = work->command == COMMAND_FINISH ? constants->width : constants->depth;
    if (!is_whole(constants, bytes) ||
        !read_sources(work, parameters, mapped, given, operation->source_bytes(constants, work->command)) ||
        !fits(result, constants->width, operation->result_bytes(constants, work->command), work->vectors))
        return VX_ERROR_INVALID_PARAMETERS;
    operation->compute(work);
    return VX_SUCCESS;
}

static vx_status answer(struct work *work, const struct operation *operation, tivx_obj_desc_t *parameters[],
                        uint16_t count)
{
    void *mapped[MOST_PARAMETERS] = {0};
    vx_status status = has_types(parameters, count) ? VX_SUCCESS : VX_ERROR_INVALID_PARAMETERS;
    unsigned open = 0;
    while (status == VX_SUCCESS && open < count) {
        if (is_mapped(parameters, open))
            status = map(parameters[open], access_of(open), &mapped[open]);
        open += status == VX_SUCCESS;
    }
    work->source_count = count - PARAMETERS + 1u;
    if (status == VX_SUCCESS)
        status = compute(work, operation, parameters, mapped);
    while (open-- > 0)
        if (is_mapped(parameters, open)) {
            const vx_status closed = unmap(parameters[open], access_of(open), mapped[open]);
            status = status == VX_SUCCESS ? closed : status;
        }
    return status;
}

vx_status harness_create(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                         void *operation)
{
    void *constants, *scratch = NULL;
    uint32_t bytes, wanted = 0;
    if (!has_types(parameters, count))
        return VX_ERROR_INVALID_PARAMETERS;
    memory_of(parameters[CONSTANTS], &bytes);
    vx_status status = map(parameters[CONSTANTS], VX_READ_ONLY, &constants);
    if (status != VX_SUCCESS)
        return status;
    if (is_whole(constants, bytes))
        wanted = ((const struct operation *)operation)->scratch_bytes(constants);
    status = unmap(parameters[CONSTANTS], VX_READ_ONLY, constants);
    if (status == VX_SUCCESS && wanted)
        scratch = tivxMemAlloc(wanted, TIVX_MEM_EXTERNAL);
    if (!scratch)
        return status == VX_SUCCESS ? wanted ? VX_ERROR_NO_MEMORY : VX_ERROR_INVALID_PARAMETERS : status;
    return tivxSetTargetKernelInstanceContext(kernel, scratch, wanted);
}

vx_status harness_delete(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                         void *operation)
{
    void *scratch = NULL;
    uint32_t bytes = 0;
    (void)parameters, (void)count, (void)operation;
    const vx_status status = tivxGetTargetKernelInstanceContext(kernel, &scratch, &bytes);
    if (status == VX_SUCCESS && scratch)
        tivxMemFree(scratch, bytes, TIVX_MEM_EXTERNAL);
    return status;
}

vx_status harness_process(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                          void *operation)
{
    return harness_control(kernel, WHOLE, parameters, count, operation);
}

static vx_status identify(tivx_obj_desc_t *references[], uint16_t count)
{
    static const struct identity identity = {KERNELS_VERSION, KERNELS_SOURCES};
    void *answer;
    uint32_t bytes = 0;
    if (count == 1 && references[0] && references[0]->type == TIVX_OBJ_DESC_USER_DATA_OBJECT)
        memory_of(references[0], &bytes);
    if (bytes < sizeof identity)
        return VX_ERROR_INVALID_PARAMETERS;
    const vx_status status = map(references[0], VX_WRITE_ONLY, &answer);
    if (status != VX_SUCCESS)
        return status;
    memcpy(answer, &identity, sizeof identity);
    return unmap(references[0], VX_WRITE_ONLY, answer);
}

vx_status harness_control(tivx_target_kernel_instance kernel, uint32_t command, tivx_obj_desc_t *references[],
                          uint16_t count, void *operation)
{
    void *scratch = NULL;
    uint32_t bytes = 0;
    if (command == COMMAND_IDENTIFY)
        return identify(references, count);
    const vx_status status = tivxGetTargetKernelInstanceContext(kernel, &scratch, &bytes);
    if (status != VX_SUCCESS || !scratch)
        return VX_FAILURE;
    struct work work = {.command = (enum command)command, .scratch = scratch};
    return answer(&work, operation, references, count);
}
