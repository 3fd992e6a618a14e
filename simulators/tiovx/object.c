#include "object.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 0x0b3ec7, LIST = 700 };

static const char *const kind_names[KINDS] = {"context", "kernel", "graph", "node", "tensor", "scalar",
                                              "user data object", "no object"};

static struct _vx_reference *objects;
static unsigned made[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of all holders */

static int is_held(const struct _vx_reference *object)
{
    return object->external + object->internal > 0;
}

void *object_new(enum kind kind, size_t bytes, void (*destroy)(struct _vx_reference *))
{
    struct _vx_reference *object = allocate(bytes);
    object->magic = MAGIC;
    object->kind = kind;
    object->external = 1;
    object->destroy = destroy;
    pthread_mutex_lock(&lock);
    snprintf(object->label, sizeof object->label, "%s %u", kind_names[kind], made[kind]++);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&lock);
    return object;
}

void *no_object(vx_status status)
{
    struct _vx_reference *object = object_new(NO_OBJECT, sizeof *object, NULL);
    object->status = status;
    return object;
}

static int is_object(const struct _vx_reference *object, const char *function)
{
    if (!object || object->magic != MAGIC)
        return refuse(0, "%s: %s", function, object ? "a reference that is none" : "no reference (NULL)");
    pthread_mutex_lock(&lock);
    const int held = is_held(object);
    pthread_mutex_unlock(&lock);
    if (!held)
        return refuse(0, "%s: %s is released already", function, object->label);
    return 1;
}

int is_alive(const void *handle, enum kind kind, const char *function)
{
    const struct _vx_reference *object = handle;
    if (!is_object(object, function))
        return 0;
    if (object->kind != kind)
        return refuse(0, "%s: %s instead of a %s", function, object->label, kind_names[kind]);
    return 1;
}

vx_status vxGetStatus(vx_reference reference)
{
    if (!reference)
        return VX_ERROR_NO_RESOURCES;
    return is_object(reference, "vxGetStatus") ? reference->status : VX_ERROR_INVALID_REFERENCE;
}

static void change(struct _vx_reference *object, int external, int internal)
{
    pthread_mutex_lock(&lock);
    object->external += external;
    object->internal += internal;
    const int dies = !is_held(object);
    pthread_mutex_unlock(&lock);
    if (dies && object->destroy)
        object->destroy(object);
}

void object_hold(void *object)
{
    change(object, 0, 1);
}

void object_drop(void *object)
{
    change(object, 0, -1);
}

void object_hold_for_program(void *object)
{
    change(object, 1, 0);
}

vx_status object_release(void *handle, enum kind kind, const char *function)
{
    struct _vx_reference **reference = handle, *object = reference ? *reference : NULL;
    if (object && object->magic == MAGIC && object->kind == NO_OBJECT) {
        *reference = NULL;
        return VX_SUCCESS;
    }
    if (!is_alive(object, kind, function))
        return VX_ERROR_INVALID_REFERENCE;
    if (object->external == 0)
        return refuse(VX_ERROR_INVALID_REFERENCE, "%s: %s is released already", function, object->label);
    if (object->busy)
        fail("%s: %s is released while a graph uses it", function, object->label);
    *reference = NULL;
    change(object, -1, 0);
    return VX_SUCCESS;
}

void object_forget(void *object)
{
    change(object, -((struct _vx_reference *)object)->external, 0);
}

unsigned objects_alive(enum kind kind)
{
    unsigned count = 0;
    pthread_mutex_lock(&lock);
    for (const struct _vx_reference *object = objects; object; object = object->next)
        count += object->kind == kind && is_held(object);
    pthread_mutex_unlock(&lock);
    return count;
}

void objects_check_released(const char *function)
{
    char list[LIST] = "";
    for (const struct _vx_reference *object = objects; object; object = object->next)
        if (object->kind != CONTEXT && object->kind != NO_OBJECT && is_held(object)) {
            const size_t used = strlen(list);
            snprintf(&list[used], sizeof list - used, "%s%s", used ? ", " : "", object->label);
        }
    if (list[0])
        fail("%s: not released: %s", function, list);
}

enum kind kind_of_type(vx_enum type)
{
    switch (type) {
    case VX_TYPE_TENSOR: return TENSOR;
    case VX_TYPE_SCALAR: return SCALAR;
    case VX_TYPE_USER_DATA_OBJECT: return USER_DATA_OBJECT;
    default: return KINDS;
    }
}

vx_status give(void *value, vx_size size, const void *from, vx_size bytes, const char *what)
{
    if (!value || size != bytes)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "%s is %zu bytes, asked for %zu", what, bytes, size);
    memcpy(value, from, bytes);
    return VX_SUCCESS;
}
