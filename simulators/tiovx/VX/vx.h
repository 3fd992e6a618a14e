/* The part of OpenVX 1.3 (Khronos) that the harness calls, declared for the double: see ../double.h.
 *
 * A program compiled against these headers runs on the double only: sizes and values of a real implementation differ,
 * and its own headers are to be used with it.
 */
#ifndef VX_VX_H
#define VX_VX_H

#include <stddef.h>
#include <stdint.h>

#define VX_API_ENTRY __attribute__((visibility("default")))
#define VX_API_CALL
#define VX_CALLBACK

enum { VX_MAX_KERNEL_NAME = 256, VX_MAX_REFERENCE_NAME = 64, VX_MAX_IMPLEMENTATION_NAME = 64 };

typedef char vx_char;
typedef uint8_t vx_uint8;
typedef int8_t vx_int8;
typedef uint32_t vx_uint32;
typedef uint64_t vx_uint64;
typedef int32_t vx_int32;
typedef int32_t vx_enum;
typedef size_t vx_size;
typedef int32_t vx_status;

typedef struct _vx_reference *vx_reference;
typedef struct _vx_context *vx_context;
typedef struct _vx_graph *vx_graph;
typedef struct _vx_node *vx_node;
typedef struct _vx_kernel *vx_kernel;
typedef struct _vx_tensor *vx_tensor;
typedef struct _vx_scalar *vx_scalar;
typedef struct _vx_meta_format *vx_meta_format;

enum vx_status_e {
    VX_SUCCESS = 0,
    VX_FAILURE = -1,
    VX_ERROR_NOT_SUPPORTED = -3,
    VX_ERROR_NOT_SUFFICIENT = -4,
    VX_ERROR_NO_MEMORY = -8,
    VX_ERROR_NO_RESOURCES = -9,
    VX_ERROR_INVALID_PARAMETERS = -10,
    VX_ERROR_INVALID_REFERENCE = -12,
    VX_ERROR_INVALID_DIMENSION = -15,
    VX_ERROR_INVALID_VALUE = -16,
    VX_ERROR_INVALID_TYPE = -19,
    VX_ERROR_INVALID_GRAPH = -18,
    VX_ERROR_INVALID_NODE = -17,
};

enum vx_type_e {
    VX_TYPE_INT8 = 2,
    VX_TYPE_UINT8 = 3,
    VX_TYPE_INT32 = 6,
    VX_TYPE_UINT32 = 7,
    VX_TYPE_FLOAT32 = 10,
    VX_TYPE_SCALAR = 0x80A,
    VX_TYPE_TENSOR = 0x815,
};

enum { VX_INPUT = 1, VX_OUTPUT, VX_BIDIRECTIONAL };
enum { VX_PARAMETER_STATE_REQUIRED = 1, VX_PARAMETER_STATE_OPTIONAL };
enum { VX_READ_ONLY = 1, VX_WRITE_ONLY, VX_READ_AND_WRITE };
enum { VX_MEMORY_TYPE_NONE = 0, VX_MEMORY_TYPE_HOST };
enum { VX_TARGET_ANY = 1, VX_TARGET_STRING };
enum { VX_CONTEXT_IMPLEMENTATION = 1 };
enum { VX_NODE_STATUS = 1, VX_NODE_PERFORMANCE };
enum { VX_GRAPH_PERFORMANCE = 1 };
enum { VX_TENSOR_NUMBER_OF_DIMS = 1, VX_TENSOR_DIMS, VX_TENSOR_DATA_TYPE, VX_TENSOR_FIXED_POINT_POSITION };

/* Times in nanoseconds. */
typedef struct {
    vx_uint64 tmp, beg, end, sum, avg, min, num, max;
} vx_perf_t;

typedef vx_status(VX_CALLBACK *vx_publish_kernels_f)(vx_context context);
typedef vx_status(VX_CALLBACK *vx_unpublish_kernels_f)(vx_context context);
typedef vx_status(VX_CALLBACK *vx_kernel_f)(vx_node node, const vx_reference *parameters, vx_uint32 num);
typedef vx_status(VX_CALLBACK *vx_kernel_initialize_f)(vx_node node, const vx_reference *parameters, vx_uint32 num);
typedef vx_status(VX_CALLBACK *vx_kernel_deinitialize_f)(vx_node node, const vx_reference *parameters, vx_uint32 num);
typedef vx_status(VX_CALLBACK *vx_kernel_validate_f)(vx_node node, const vx_reference parameters[], vx_uint32 num,
                                                     vx_meta_format metas[]);

VX_API_ENTRY vx_context vxCreateContext(void);
VX_API_ENTRY vx_status vxReleaseContext(vx_context *context);
VX_API_ENTRY vx_status vxQueryContext(vx_context context, vx_enum attribute, void *value, vx_size size);
VX_API_ENTRY vx_status vxGetStatus(vx_reference reference);

VX_API_ENTRY vx_status vxLoadKernels(vx_context context, const vx_char *module);
VX_API_ENTRY vx_status vxUnloadKernels(vx_context context, const vx_char *module);
VX_API_ENTRY vx_status vxAllocateUserKernelId(vx_context context, vx_enum *id);
VX_API_ENTRY vx_kernel vxAddUserKernel(vx_context context, const vx_char name[VX_MAX_KERNEL_NAME], vx_enum id,
                                       vx_kernel_f function, vx_uint32 parameters, vx_kernel_validate_f validate,
                                       vx_kernel_initialize_f initialize, vx_kernel_deinitialize_f deinitialize);
VX_API_ENTRY vx_status vxAddParameterToKernel(vx_kernel kernel, vx_uint32 index, vx_enum direction, vx_enum type,
                                              vx_enum state);
VX_API_ENTRY vx_status vxFinalizeKernel(vx_kernel kernel);
VX_API_ENTRY vx_status vxRemoveKernel(vx_kernel kernel);
VX_API_ENTRY vx_kernel vxGetKernelByName(vx_context context, const vx_char *name);
VX_API_ENTRY vx_status vxReleaseKernel(vx_kernel *kernel);

VX_API_ENTRY vx_graph vxCreateGraph(vx_context context);
VX_API_ENTRY vx_status vxReleaseGraph(vx_graph *graph);
VX_API_ENTRY vx_status vxVerifyGraph(vx_graph graph);
VX_API_ENTRY vx_status vxProcessGraph(vx_graph graph);
VX_API_ENTRY vx_status vxQueryGraph(vx_graph graph, vx_enum attribute, void *value, vx_size size);

VX_API_ENTRY vx_node vxCreateGenericNode(vx_graph graph, vx_kernel kernel);
VX_API_ENTRY vx_status vxReleaseNode(vx_node *node);
VX_API_ENTRY vx_status vxSetParameterByIndex(vx_node node, vx_uint32 index, vx_reference value);
VX_API_ENTRY vx_status vxSetNodeTarget(vx_node node, vx_enum target, const char *name);
VX_API_ENTRY vx_status vxQueryNode(vx_node node, vx_enum attribute, void *value, vx_size size);

VX_API_ENTRY vx_tensor vxCreateTensor(vx_context context, vx_size count, const vx_size *dims, vx_enum type,
                                      vx_int8 fixed_point_position);
VX_API_ENTRY vx_status vxReleaseTensor(vx_tensor *tensor);
VX_API_ENTRY vx_status vxQueryTensor(vx_tensor tensor, vx_enum attribute, void *value, vx_size size);
VX_API_ENTRY vx_status vxCopyTensorPatch(vx_tensor tensor, vx_size count, const vx_size *start, const vx_size *end,
                                         const vx_size *stride, void *user, vx_enum usage, vx_enum memory);

VX_API_ENTRY vx_scalar vxCreateScalar(vx_context context, vx_enum type, const void *value);
VX_API_ENTRY vx_status vxReleaseScalar(vx_scalar *scalar);
VX_API_ENTRY vx_status vxCopyScalar(vx_scalar scalar, void *user, vx_enum usage, vx_enum memory);

VX_API_ENTRY vx_status vxSetMetaFormatAttribute(vx_meta_format meta, vx_enum attribute, const void *value,
                                                vx_size size);

#endif
