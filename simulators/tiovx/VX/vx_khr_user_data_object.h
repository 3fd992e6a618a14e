/* The part of OpenVX's extension for user data objects that the harness calls, see vx.h. */
#ifndef VX_KHR_USER_DATA_OBJECT_H
#define VX_KHR_USER_DATA_OBJECT_H

#include <VX/vx.h>

typedef struct _vx_user_data_object *vx_user_data_object;

enum { VX_TYPE_USER_DATA_OBJECT = 0x816 };
enum { VX_USER_DATA_OBJECT_NAME = 1, VX_USER_DATA_OBJECT_SIZE };

VX_API_ENTRY vx_user_data_object vxCreateUserDataObject(vx_context context, const vx_char *type, vx_size size,
                                                        const void *content);
VX_API_ENTRY vx_status vxReleaseUserDataObject(vx_user_data_object *object);
VX_API_ENTRY vx_status vxQueryUserDataObject(vx_user_data_object object, vx_enum attribute, void *value, vx_size size);
VX_API_ENTRY vx_status vxCopyUserDataObject(vx_user_data_object object, vx_size offset, vx_size size, void *user,
                                            vx_enum usage, vx_enum memory);

#endif
