/* Descriptors of parameters for a kernel on a target, see tivx.h. */
#ifndef TI_TIVX_OBJ_DESC_H
#define TI_TIVX_OBJ_DESC_H

#include <TI/tivx_mem.h>

enum { TIVX_CONTEXT_MAX_TENSOR_DIMS = 4 };
enum { TIVX_OBJ_DESC_SCALAR = 1, TIVX_OBJ_DESC_TENSOR, TIVX_OBJ_DESC_USER_DATA_OBJECT };

typedef struct {
    volatile uint16_t obj_desc_id;
    volatile uint16_t type;
} tivx_obj_desc_t;

typedef struct {
    tivx_obj_desc_t base;
    tivx_shared_mem_ptr_t mem_ptr;
    volatile uint32_t mem_size;
} tivx_obj_desc_user_data_object_t;

typedef struct {
    tivx_obj_desc_t base;
    volatile uint32_t data_type;
    union {
        volatile vx_int32 s32;
        volatile vx_uint32 u32;
    } data;
} tivx_obj_desc_scalar_t;

/* Dimensions from the innermost out; stride[0] is the size of an element, strides are in bytes. */
typedef struct {
    tivx_obj_desc_t base;
    tivx_shared_mem_ptr_t mem_ptr;
    volatile uint32_t number_of_dimensions;
    volatile uint32_t data_type;
    volatile uint32_t dimensions[TIVX_CONTEXT_MAX_TENSOR_DIMS];
    volatile uint32_t stride[TIVX_CONTEXT_MAX_TENSOR_DIMS];
    volatile uint32_t mem_size;
} tivx_obj_desc_tensor_t;

#endif
