/* Context, modules and kernels. */
#include "kernel.h"

#include <TI/tivx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static vx_context alive;

/* A module: what to call when it is loaded. */
static struct module {
    char name[VX_MAX_KERNEL_NAME];
    vx_publish_kernels_f publish;
    vx_unpublish_kernels_f unpublish;
    int loaded;
} modules[4];

enum { MODULES = sizeof modules / sizeof *modules, TARGET_NAME = 64 };

/* A text that the program gave is its name, or what it says. */
static int is_name(const char *text, size_t room)
{
    return text && text[0] && strlen(text) < room;
}

vx_context vxCreateContext(void)
{
    if (alive || !cores_run()) {
        refuse(VX_FAILURE, "vxCreateContext: %s", alive ? "there is a context already" : "before appInit");
        return NULL;
    }
    alive = object_new(CONTEXT, sizeof *alive, NULL);
    return alive;
}

vx_status vxReleaseContext(vx_context *context)
{
    if (!context || !is_alive(*context, CONTEXT, "vxReleaseContext"))
        return VX_ERROR_INVALID_REFERENCE;
    for (size_t i = 0; i < MODULES; ++i)
        if (modules[i].loaded)
            fail("vxReleaseContext: module %s is still loaded", modules[i].name);
    objects_check_released("vxReleaseContext");
    alive = NULL;
    return object_release(context, CONTEXT, "vxReleaseContext");
}

vx_status vxQueryContext(vx_context context, vx_enum attribute, void *value, vx_size size)
{
    static const char implementation[VX_MAX_IMPLEMENTATION_NAME] = "host-simulation of TIOVX (double)";
    if (!is_alive(context, CONTEXT, "vxQueryContext"))
        return VX_ERROR_INVALID_REFERENCE;
    if (attribute != VX_CONTEXT_IMPLEMENTATION)
        return refuse(VX_ERROR_NOT_SUPPORTED, "vxQueryContext: attribute %d", attribute);
    return give(value, size, implementation, sizeof implementation, "VX_CONTEXT_IMPLEMENTATION");
}

static struct module *module_named(const char *name)
{
    for (size_t i = 0; i < MODULES; ++i)
        if (strcmp(modules[i].name, name) == 0)
            return &modules[i];
    return NULL;
}

vx_status tivxRegisterModule(const char *name, vx_publish_kernels_f publish, vx_unpublish_kernels_f unpublish)
{
    if (!is_name(name, sizeof modules->name) || !publish || !unpublish)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxRegisterModule: needs a name and two functions");
    if (module_named(name))
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxRegisterModule: %s is registered already", name);
    struct module *module = module_named("");
    if (!module)
        return refuse(VX_ERROR_NO_RESOURCES, "tivxRegisterModule: more than %d modules", MODULES);
    strcpy(module->name, name);
    module->publish = publish;
    module->unpublish = unpublish;
    return VX_SUCCESS;
}

vx_status tivxUnRegisterModule(const char *name)
{
    struct module *module = is_name(name, sizeof modules->name) ? module_named(name) : NULL;
    if (!module)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxUnRegisterModule: '%s' is not registered",
                      name ? name : "NULL");
    if (module->loaded)
        fail("tivxUnRegisterModule: %s is still loaded", name);
    memset(module, 0, sizeof *module);
    return VX_SUCCESS;
}

void modules_check_empty(void)
{
    for (size_t i = 0; i < MODULES; ++i)
        if (modules[i].name[0])
            fail("appDeInit: module %s is still registered", modules[i].name);
}

/* A module that is loaded, or is not, as wanted; NULL: told why not. */
static struct module *module_to(const char *function, vx_context context, const char *name, int loaded)
{
    struct module *module = is_name(name, sizeof modules->name) ? module_named(name) : NULL;
    if (!is_alive(context, CONTEXT, function))
        return NULL;
    if (module && module->loaded == loaded)
        return module;
    refuse(0, "%s: module '%s' is %s", function, name ? name : "NULL",
           !module ? "not registered" : loaded ? "not loaded" : "loaded already");
    return NULL;
}

vx_status vxLoadKernels(vx_context context, const vx_char *name)
{
    struct module *module = module_to("vxLoadKernels", context, name, 0);
    if (!module)
        return VX_ERROR_INVALID_PARAMETERS;
    const vx_status status = module->publish(context);
    module->loaded = status == VX_SUCCESS;
    return status;
}

vx_status vxUnloadKernels(vx_context context, const vx_char *name)
{
    struct module *module = module_to("vxUnloadKernels", context, name, 1);
    if (!module)
        return VX_ERROR_INVALID_PARAMETERS;
    module->loaded = 0;
    return module->unpublish(context);
}

vx_status vxAllocateUserKernelId(vx_context context, vx_enum *id)
{
    static _Atomic vx_enum next = 0x7000;
    if (!id || !is_alive(context, CONTEXT, "vxAllocateUserKernelId"))
        return VX_ERROR_INVALID_PARAMETERS;
    *id = next++;
    return VX_SUCCESS;
}

/* The kernels that graphs can use, by name. */
static struct {
    vx_kernel kernels[MAX_REFERENCES];
    size_t count;
} known;

static vx_kernel *known_kernel(const char *name)
{
    for (size_t i = 0; i < known.count; ++i)
        if (strcmp(known.kernels[i]->name, name) == 0)
            return &known.kernels[i];
    return NULL;
}

static const char *objection(const char *name, vx_kernel_f function, vx_uint32 parameters,
                             vx_kernel_validate_f validate)
{
    if (!is_name(name, VX_MAX_KERNEL_NAME))
        return "without a name, or one too long";
    if (known_kernel(name))
        return "there is one of that name";
    if (function)
        return "a kernel of a target has no function of the host";
    if (parameters == 0 || parameters > MAX_REFERENCES || !validate)
        return "needs 1 to 16 parameters, and validate";
    return NULL;
}

vx_kernel vxAddUserKernel(vx_context context, const vx_char name[VX_MAX_KERNEL_NAME], vx_enum id, vx_kernel_f function,
                          vx_uint32 parameters, vx_kernel_validate_f validate, vx_kernel_initialize_f initialize,
                          vx_kernel_deinitialize_f deinitialize)
{
    (void)id;
    if (!is_alive(context, CONTEXT, "vxAddUserKernel"))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    const char *against = objection(name, function, parameters, validate);
    if (against)
        return no_object(refuse(VX_ERROR_INVALID_PARAMETERS, "vxAddUserKernel: %s: %s", name ? name : "NULL", against));
    vx_kernel kernel = object_new(KERNEL, sizeof *kernel, NULL);
    strcpy(kernel->name, name);
    snprintf(kernel->base.label, sizeof kernel->base.label, "kernel %s", name);
    kernel->parameter_count = parameters;
    kernel->validate = validate;
    kernel->initialize = initialize;
    kernel->deinitialize = deinitialize;
    return kernel;
}

/* Alive, and still to be described. */
static int is_open(vx_kernel kernel, const char *function)
{
    if (!is_alive(kernel, KERNEL, function))
        return 0;
    return !kernel->finalized || refuse(0, "%s: %s is finalized", function, kernel->base.label);
}

vx_status vxAddParameterToKernel(vx_kernel kernel, vx_uint32 index, vx_enum direction, vx_enum type, vx_enum state)
{
    const enum kind kind = kind_of_type(type);
    if (!is_open(kernel, "vxAddParameterToKernel"))
        return VX_ERROR_INVALID_REFERENCE;
    if (index >= kernel->parameter_count || kernel->directions[index])
        return refuse(VX_ERROR_INVALID_PARAMETERS, "vxAddParameterToKernel: %s: index %u, of %u, or given before",
                      kernel->base.label, index, kernel->parameter_count);
    if (direction < VX_INPUT || direction > VX_BIDIRECTIONAL || kind == KINDS || state != VX_PARAMETER_STATE_REQUIRED ||
        (kind != TENSOR && direction != VX_INPUT))
        return refuse(VX_ERROR_INVALID_PARAMETERS,
                      "vxAddParameterToKernel: %s: parameter %u of direction %d, type 0x%x, state %d",
                      kernel->base.label, index, direction, (unsigned)type, state);
    kernel->directions[index] = direction;
    kernel->kinds[index] = kind;
    return VX_SUCCESS;
}

vx_status tivxAddKernelTarget(vx_kernel kernel, const char *target)
{
    const enum core core = core_named(target);
    if (!is_open(kernel, "tivxAddKernelTarget"))
        return VX_ERROR_INVALID_REFERENCE;
    if (core == NO_CORE)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxAddKernelTarget: %s: there is no core '%.*s'",
                      kernel->base.label, TARGET_NAME, target ? target : "NULL");
    kernel->targets[core] = 1;
    return VX_SUCCESS;
}

vx_status vxFinalizeKernel(vx_kernel kernel)
{
    if (!is_open(kernel, "vxFinalizeKernel"))
        return VX_ERROR_INVALID_REFERENCE;
    for (vx_uint32 i = 0; i < kernel->parameter_count; ++i)
        if (!kernel->directions[i])
            return refuse(VX_ERROR_INVALID_PARAMETERS, "vxFinalizeKernel: %s: parameter %u is missing",
                          kernel->base.label, i);
    if (known.count == MAX_REFERENCES)
        return refuse(VX_ERROR_NO_RESOURCES, "vxFinalizeKernel: more than %d kernels", MAX_REFERENCES);
    kernel->finalized = 1;
    known.kernels[known.count++] = kernel;
    object_hold(kernel);
    return VX_SUCCESS;
}

/* The program's handle goes with it. */
vx_status vxRemoveKernel(vx_kernel kernel)
{
    if (!is_alive(kernel, KERNEL, "vxRemoveKernel"))
        return VX_ERROR_INVALID_REFERENCE;
    vx_kernel *place = kernel->finalized ? known_kernel(kernel->name) : NULL;
    if (place) {
        *place = known.kernels[--known.count];
        object_drop(kernel);
    }
    if (kernel->base.internal > 0)
        fail("vxRemoveKernel: a graph still uses %s", kernel->base.label);
    return object_release(&kernel, KERNEL, "vxRemoveKernel");
}

vx_kernel vxGetKernelByName(vx_context context, const vx_char *name)
{
    if (!is_alive(context, CONTEXT, "vxGetKernelByName"))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    vx_kernel *kernel = is_name(name, VX_MAX_KERNEL_NAME) ? known_kernel(name) : NULL;
    if (!kernel)
        return no_object(refuse(VX_ERROR_INVALID_PARAMETERS,
                                "vxGetKernelByName: there is no '%s', or it is not finalized", name ? name : "NULL"));
    object_hold_for_program(*kernel);
    return *kernel;
}

vx_status vxReleaseKernel(vx_kernel *kernel)
{
    return object_release(kernel, KERNEL, "vxReleaseKernel");
}
