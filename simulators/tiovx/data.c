/* Tensors, scalars and user data objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "faults.h"
#include "object.h"

enum { MAX_TENSORS = 256, MAX_USER_DATA_OBJECTS = 194 }; /* tivx_config_j721e.h */
enum { DIMS = TIVX_CONTEXT_MAX_TENSOR_DIMS, OBJECT_ALIGNMENT = 64 };

struct _vx_tensor {
    struct data data;
};
struct _vx_scalar {
    struct data data;
};
struct _vx_user_data_object {
    struct data data;
};

static void destroy(struct _vx_reference *object)
{
    const struct data *data = (struct data *)object;
    if (data->buffer)
        buffer_destroy(data->buffer);
}

static struct data *new_data(enum kind kind, uint16_t type)
{
    static _Atomic uint16_t descriptors;
    struct data *data = object_new(kind, sizeof *data, destroy);
    data->descriptor.any.obj_desc_id = descriptors++;
    data->descriptor.any.type = type;
    return data;
}

static void set_memory(tivx_shared_mem_ptr_t *memory, const struct buffer *buffer)
{
    memory->mem_heap_region = TIVX_MEM_EXTERNAL;
    memory->dma_buf_fd = -1;
    memory->shared_ptr = (uintptr_t)buffer_window(buffer, SHARED);
    memory->host_ptr = (uintptr_t)buffer_window(buffer, HOST);
}

/* Returns NULL if an object may be created, else the object to return instead. */
static void *refusal(vx_context context, enum kind kind, unsigned limit, const char *function)
{
    if (!is_alive(context, CONTEXT, function))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    if (fault_of_memory())
        return no_object(VX_ERROR_NO_MEMORY);
    if (objects_alive(kind) >= limit)
        return no_object(refuse(VX_ERROR_NO_RESOURCES, "%s: more than %u of them", function, limit));
    return NULL;
}

/* Data that a graph works on are not the program's. */
static void check_idle(const struct data *data, const char *function)
{
    if (data->base.busy)
        fail("%s: %s while a graph uses it", function, data->base.label);
}

/* A node's failure is in no status that vxProcessGraph returns. */
static void check_result(const struct data *data, const char *function)
{
    if (data->unasked != VX_SUCCESS)
        fail("%s: %s was to be written by a node that failed with status %d, and nobody has asked for its "
             "VX_NODE_STATUS", function, data->base.label, data->unasked);
}

static int check_copy(const struct data *data, void *user, vx_enum usage, vx_enum memory, const char *function)
{
    check_idle(data, function);
    if (usage == VX_READ_ONLY) {
        check_result(data, function);
        if (data->buffer && data->buffer->version == 0)
            fail("%s: %s is read, and nobody has ever written it", function, data->base.label);
    }
    if (user && (usage == VX_READ_ONLY || usage == VX_WRITE_ONLY) && memory == VX_MEMORY_TYPE_HOST)
        return 1;
    return refuse(0, "%s: %s with memory %p, usage %d, memory type %d", function, data->base.label, user, usage,
                  memory);
}

static void move(void *stored, void *user, size_t bytes, vx_enum usage)
{
    if (usage == VX_READ_ONLY)
        memcpy(user, stored, bytes);
    else
        memcpy(stored, user, bytes);
}

static uint32_t element_bytes(vx_enum type)
{
    switch (type) {
    case VX_TYPE_INT8:
    case VX_TYPE_UINT8: return 1;
    case VX_TYPE_INT32:
    case VX_TYPE_UINT32:
    case VX_TYPE_FLOAT32: return 4;
    default: return 0;
    }
}

static int are_dims(vx_size count, const vx_size *dims)
{
    int good = dims && count >= 1 && count <= DIMS;
    for (vx_size i = 0; good && i < count; ++i)
        good = dims[i] > 0 && dims[i] <= UINT32_MAX;
    return good;
}

static vx_size product(const vx_size *factors, vx_size count)
{
    vx_size all = 1;
    for (vx_size i = 0; i < count; ++i)
        all = all > UINT32_MAX ? all : all * factors[i];
    return all;
}

static void describe_tensor(tivx_obj_desc_tensor_t *descriptor, const struct buffer *buffer, vx_size count,
                            const vx_size *dims, vx_enum type)
{
    set_memory(&descriptor->mem_ptr, buffer);
    descriptor->mem_size = buffer->bytes;
    descriptor->number_of_dimensions = (uint32_t)count;
    descriptor->data_type = (uint32_t)type;
    for (vx_size i = 0; i < count; ++i) {
        descriptor->dimensions[i] = (uint32_t)dims[i];
        descriptor->stride[i] = i == 0   ? element_bytes(type)
                                : i == 1 ? buffer->stride
                                         : (uint32_t)(descriptor->stride[i - 1] * dims[i - 1]);
    }
}

vx_tensor vxCreateTensor(vx_context context, vx_size count, const vx_size *dims, vx_enum type, vx_int8 position)
{
    void *refused = refusal(context, TENSOR, MAX_TENSORS, "vxCreateTensor");
    if (refused)
        return refused;
    if (!are_dims(count, dims))
        return no_object(refuse(VX_ERROR_INVALID_DIMENSION, "vxCreateTensor: %zu dimensions, or one that is 0", count));
    if (!element_bytes(type))
        return no_object(refuse(VX_ERROR_INVALID_TYPE, "vxCreateTensor: elements of type %d", type));
    struct data *tensor = new_data(TENSOR, TIVX_OBJ_DESC_TENSOR);
    tensor->buffer = buffer_create(tensor->base.label, product(&dims[1], count - 1), dims[0] * element_bytes(type), 1);
    if (!tensor->buffer) {
        object_forget(tensor);
        return no_object(refuse(VX_ERROR_NO_MEMORY, "vxCreateTensor: more than 4 GiB"));
    }
    tensor->fixed_point_position = position;
    describe_tensor(&tensor->descriptor.tensor, tensor->buffer, count, dims, type);
    return (vx_tensor)tensor;
}

vx_status vxReleaseTensor(vx_tensor *tensor)
{
    return object_release(tensor, TENSOR, "vxReleaseTensor");
}

vx_status vxQueryTensor(vx_tensor tensor, vx_enum attribute, void *value, vx_size size)
{
    if (!is_alive(tensor, TENSOR, "vxQueryTensor"))
        return VX_ERROR_INVALID_REFERENCE;
    const tivx_obj_desc_tensor_t *descriptor = &tensor->data.descriptor.tensor;
    const vx_size count = descriptor->number_of_dimensions;
    const vx_enum type = (vx_enum)descriptor->data_type;
    vx_size dims[DIMS];
    for (vx_size i = 0; i < DIMS; ++i)
        dims[i] = descriptor->dimensions[i];
    switch (attribute) {
    case VX_TENSOR_NUMBER_OF_DIMS: return give(value, size, &count, sizeof count, "VX_TENSOR_NUMBER_OF_DIMS");
    case VX_TENSOR_DIMS: return give(value, size, dims, count * sizeof *dims, "VX_TENSOR_DIMS");
    case VX_TENSOR_DATA_TYPE: return give(value, size, &type, sizeof type, "VX_TENSOR_DATA_TYPE");
    case VX_TENSOR_FIXED_POINT_POSITION:
        return give(value, size, &tensor->data.fixed_point_position, 1, "VX_TENSOR_FIXED_POINT_POSITION");
    default: return refuse(VX_ERROR_NOT_SUPPORTED, "vxQueryTensor: attribute %d", attribute);
    }
}

/* The program's strides are of what it copies: an element, and at least what lies within. */
static int check_patch(const tivx_obj_desc_tensor_t *tensor, vx_size count, const vx_size *start, const vx_size *end,
                       const vx_size *stride)
{
    const char *function = "vxCopyTensorPatch";
    if (count != tensor->number_of_dimensions || !start || !end || !stride)
        return refuse(0, "%s: %zu dimensions of %u", function, count, tensor->number_of_dimensions);
    for (vx_size i = 0; i < count; ++i)
        if (start[i] >= end[i] || end[i] > tensor->dimensions[i])
            return refuse(0, "%s: from %zu to %zu of dimension %zu, which has %u", function, start[i], end[i], i,
                          tensor->dimensions[i]);
    for (vx_size i = 0; i < count; ++i)
        if (i == 0 ? stride[0] != tensor->stride[0] : stride[i] < stride[i - 1] * (end[i - 1] - start[i - 1]))
            return refuse(0, "%s: stride %zu of dimension %zu; elements have %u bytes", function, stride[i], i,
                          tensor->stride[0]);
    return 1;
}

/* Row by row; `at` counts within the patch. */
static void copy_patch(const struct data *tensor, const vx_size *start, const vx_size *end, const vx_size *stride,
                       uint8_t *user, vx_enum usage)
{
    const tivx_obj_desc_tensor_t *descriptor = &tensor->descriptor.tensor;
    const vx_size count = descriptor->number_of_dimensions, bytes = (end[0] - start[0]) * stride[0];
    vx_size at[DIMS] = {0};
    for (vx_size turned = 0; turned < count;) {
        vx_size row = 0, place = 0;
        for (vx_size i = count - 1; i > 0; --i) {
            row = row * descriptor->dimensions[i] + start[i] + at[i];
            place += at[i] * stride[i];
        }
        uint8_t *stored = tensor->buffer->store + row * tensor->buffer->row_bytes + start[0] * stride[0];
        move(stored, user + place, bytes, usage);
        for (turned = 1; turned < count && ++at[turned] == end[turned] - start[turned]; ++turned)
            at[turned] = 0;
    }
}

vx_status vxCopyTensorPatch(vx_tensor tensor, vx_size count, const vx_size *start, const vx_size *end,
                            const vx_size *stride, void *user, vx_enum usage, vx_enum memory)
{
    if (!is_alive(tensor, TENSOR, "vxCopyTensorPatch"))
        return VX_ERROR_INVALID_REFERENCE;
    if (!check_copy(&tensor->data, user, usage, memory, "vxCopyTensorPatch") ||
        !check_patch(&tensor->data.descriptor.tensor, count, start, end, stride))
        return VX_ERROR_INVALID_PARAMETERS;
    copy_patch(&tensor->data, start, end, stride, user, usage);
    tensor->data.buffer->version += usage == VX_WRITE_ONLY;
    return VX_SUCCESS;
}

vx_user_data_object vxCreateUserDataObject(vx_context context, const vx_char *type, vx_size size, const void *content)
{
    void *refused = refusal(context, USER_DATA_OBJECT, MAX_USER_DATA_OBJECTS, "vxCreateUserDataObject");
    if (refused)
        return refused;
    if (!type || strlen(type) >= VX_MAX_REFERENCE_NAME || size == 0 || size > INT32_MAX)
        return no_object(refuse(VX_ERROR_INVALID_PARAMETERS, "vxCreateUserDataObject: %zu bytes of type '%s'", size,
                                type ? type : "NULL"));
    struct data *object = new_data(USER_DATA_OBJECT, TIVX_OBJ_DESC_USER_DATA_OBJECT);
    object->buffer = buffer_create(object->base.label, 1, size, OBJECT_ALIGNMENT);
    strcpy(object->type, type);
    set_memory(&object->descriptor.object.mem_ptr, object->buffer);
    object->descriptor.object.mem_size = object->buffer->bytes;
    if (content) {
        memcpy(object->buffer->store, content, size);
        object->buffer->version = 1;
    }
    return (vx_user_data_object)object;
}

vx_status vxReleaseUserDataObject(vx_user_data_object *object)
{
    return object_release(object, USER_DATA_OBJECT, "vxReleaseUserDataObject");
}

vx_status vxQueryUserDataObject(vx_user_data_object object, vx_enum attribute, void *value, vx_size size)
{
    if (!is_alive(object, USER_DATA_OBJECT, "vxQueryUserDataObject"))
        return VX_ERROR_INVALID_REFERENCE;
    const vx_size bytes = object->data.buffer->bytes;
    switch (attribute) {
    case VX_USER_DATA_OBJECT_NAME:
        return give(value, size, object->data.type, sizeof object->data.type, "VX_USER_DATA_OBJECT_NAME");
    case VX_USER_DATA_OBJECT_SIZE: return give(value, size, &bytes, sizeof bytes, "VX_USER_DATA_OBJECT_SIZE");
    default: return refuse(VX_ERROR_NOT_SUPPORTED, "vxQueryUserDataObject: attribute %d", attribute);
    }
}

vx_status vxCopyUserDataObject(vx_user_data_object object, vx_size offset, vx_size size, void *user, vx_enum usage,
                               vx_enum memory)
{
    if (!is_alive(object, USER_DATA_OBJECT, "vxCopyUserDataObject"))
        return VX_ERROR_INVALID_REFERENCE;
    struct buffer *buffer = object->data.buffer;
    if (!check_copy(&object->data, user, usage, memory, "vxCopyUserDataObject"))
        return VX_ERROR_INVALID_PARAMETERS;
    if (size == 0 || offset > buffer->bytes || size > buffer->bytes - offset)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "vxCopyUserDataObject: %zu bytes from %zu on of %u", size, offset,
                      buffer->bytes);
    move(buffer->store + offset, user, size, usage);
    buffer->version += usage == VX_WRITE_ONLY;
    return VX_SUCCESS;
}

vx_scalar vxCreateScalar(vx_context context, vx_enum type, const void *value)
{
    if (!is_alive(context, CONTEXT, "vxCreateScalar"))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    if (type != VX_TYPE_INT32 && type != VX_TYPE_UINT32)
        return no_object(refuse(VX_ERROR_INVALID_TYPE, "vxCreateScalar: type %d", type));
    struct data *scalar = new_data(SCALAR, TIVX_OBJ_DESC_SCALAR);
    scalar->descriptor.scalar.data_type = (uint32_t)type;
    if (value)
        scalar->descriptor.scalar.data.u32 = *(const vx_uint32 *)value;
    return (vx_scalar)scalar;
}

vx_status vxReleaseScalar(vx_scalar *scalar)
{
    return object_release(scalar, SCALAR, "vxReleaseScalar");
}

vx_status vxCopyScalar(vx_scalar scalar, void *user, vx_enum usage, vx_enum memory)
{
    if (!is_alive(scalar, SCALAR, "vxCopyScalar"))
        return VX_ERROR_INVALID_REFERENCE;
    if (!check_copy(&scalar->data, user, usage, memory, "vxCopyScalar"))
        return VX_ERROR_INVALID_PARAMETERS;
    move((void *)&scalar->data.descriptor.scalar.data.u32, user, sizeof(vx_uint32), usage);
    return VX_SUCCESS;
}
