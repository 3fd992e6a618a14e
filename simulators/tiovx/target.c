#include "target.h"

#include <TI/tivx.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "buffer.h"
#include "faults.h"
#include "heap.h"
#include "mapping.h"
#include "perf.h"

enum { LABEL = VX_MAX_KERNEL_NAME + 32 };

struct _tivx_target_kernel {
    int used, missing; /* missing: no graph finds it, see faults.h */
    char name[VX_MAX_KERNEL_NAME];
    enum core core;
    tivx_target_kernel_f callbacks[CONTROL];
    tivx_target_kernel_control_f control;
    void *context;
};

struct _tivx_target_kernel_instance {
    int used;
    tivx_target_kernel kernel;
    void *context;
    uint32_t context_bytes;
};

static struct _tivx_target_kernel kernels[MAX_TARGET_KERNELS];
static struct _tivx_target_kernel_instance instances[MAX_INSTANCES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both tables */

static const char *const callback_names[] = {"create", "process", "delete", "control"};

static tivx_target_kernel find(const char *name, enum core core)
{
    for (size_t i = 0; i < MAX_TARGET_KERNELS; ++i)
        if (kernels[i].used && kernels[i].core == core && strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

static tivx_target_kernel room_for_kernel(void)
{
    for (size_t i = 0; i < MAX_TARGET_KERNELS; ++i)
        if (!kernels[i].used)
            return &kernels[i];
    return NULL;
}

/* The core; what it has it must bring itself: the program is one of MPU-0. */
static enum core check_registration(const char *name, const char *target)
{
    const enum core core = core_named(target);
    if (!name || !name[0] || strlen(name) >= VX_MAX_KERNEL_NAME)
        fail("tivxAddTargetKernelByName: a kernel needs a name of at most %d characters", VX_MAX_KERNEL_NAME - 1);
    if (core == NO_CORE)
        fail("tivxAddTargetKernelByName: %s for core '%s', which there is not; there are " TIVX_TARGET_DSP_C7_1
             " and " TIVX_TARGET_MPU_0, name, target ? target : "NULL");
    if (running.core != core && !(running.core == NO_CORE && core == MPU_0))
        fail("tivxAddTargetKernelByName: %s for %s is registered by %s: only a core's own firmware can", name, target,
             core_name(running.core));
    return core;
}

tivx_target_kernel tivxAddTargetKernelByName(const char *name, const char *target, tivx_target_kernel_f process,
                                             tivx_target_kernel_f create, tivx_target_kernel_f destroy,
                                             tivx_target_kernel_control_f control, void *context)
{
    const enum core core = check_registration(name, target);
    if (!process || !create || !destroy || !control)
        fail("tivxAddTargetKernelByName: %s for %s lacks a callback", name, target);
    pthread_mutex_lock(&lock);
    const tivx_target_kernel twin = find(name, core), kernel = room_for_kernel();
    if (twin)
        fail("tivxAddTargetKernelByName: %s for %s is registered twice", name, target);
    if (kernel) {
        *kernel = (struct _tivx_target_kernel){
            .used = 1, .core = core, .callbacks = {[CREATE] = create, [PROCESS] = process, [DELETE] = destroy},
            .control = control, .context = context};
        strcpy(kernel->name, name);
        kernel->missing = core == DSP_C7_1 && fault_of_kernel(name);
    }
    pthread_mutex_unlock(&lock);
    if (!kernel)
        refuse(VX_ERROR_NO_RESOURCES, "tivxAddTargetKernelByName: more than %d target kernels", MAX_TARGET_KERNELS);
    return kernel;
}

vx_status tivxRemoveTargetKernel(tivx_target_kernel kernel)
{
    if (!kernel || !kernel->used)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxRemoveTargetKernel: there is no such kernel, or no longer");
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_INSTANCES; ++i)
        if (instances[i].used && instances[i].kernel == kernel)
            fail("tivxRemoveTargetKernel: a graph still uses %s on %s", kernel->name, core_name(kernel->core));
    kernel->used = 0;
    pthread_mutex_unlock(&lock);
    return VX_SUCCESS;
}

void target_check_empty(void)
{
    for (size_t i = 0; i < MAX_TARGET_KERNELS; ++i)
        if (kernels[i].used && kernels[i].core == MPU_0)
            fail("appDeInit: %s on " TIVX_TARGET_MPU_0 " is still registered", kernels[i].name);
}

static tivx_target_kernel_instance room_for_instance(void)
{
    for (size_t i = 0; i < MAX_INSTANCES; ++i)
        if (!instances[i].used)
            return &instances[i];
    return NULL;
}

vx_status instance_open(const char *name, enum core core, tivx_target_kernel_instance *instance)
{
    pthread_mutex_lock(&lock);
    const tivx_target_kernel kernel = find(name, core);
    *instance = kernel && !kernel->missing ? room_for_instance() : NULL;
    if (*instance)
        **instance = (struct _tivx_target_kernel_instance){.used = 1, .kernel = kernel};
    pthread_mutex_unlock(&lock);
    if (!kernel || kernel->missing)
        return refuse(VX_FAILURE, "kernel %s has not been registered on %s", name, core_name(core));
    if (!*instance)
        return refuse(VX_ERROR_NO_RESOURCES, "more than %d instances of target kernels", MAX_INSTANCES);
    return VX_SUCCESS;
}

void instance_close(tivx_target_kernel_instance *instance)
{
    pthread_mutex_lock(&lock);
    (*instance)->used = 0;
    pthread_mutex_unlock(&lock);
    *instance = NULL;
}

/* Callbacks know no instance but their own. */
static void check_own(tivx_target_kernel_instance instance, const char *function)
{
    if (instance != request_calling(function)->instance)
        fail("%s: not the instance that runs", function);
}

vx_status tivxSetTargetKernelInstanceContext(tivx_target_kernel_instance instance, void *context, uint32_t size)
{
    check_own(instance, "tivxSetTargetKernelInstanceContext");
    instance->context = context;
    instance->context_bytes = size;
    return VX_SUCCESS;
}

vx_status tivxGetTargetKernelInstanceContext(tivx_target_kernel_instance instance, void **context, uint32_t *size)
{
    check_own(instance, "tivxGetTargetKernelInstanceContext");
    if (!context || !size)
        fail("tivxGetTargetKernelInstanceContext: nowhere to write to");
    if (!instance->context)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "the instance has no context");
    *context = instance->context;
    *size = instance->context_bytes;
    return VX_SUCCESS;
}

static vx_status call(struct request *request)
{
    const tivx_target_kernel_instance instance = request->instance;
    const tivx_target_kernel kernel = instance->kernel;
    if (request->callback == CONTROL)
        return kernel->control(instance, request->asked, request->descriptors, request->count, kernel->context);
    return kernel->callbacks[request->callback](instance, request->descriptors, request->count, kernel->context);
}

/* Checks the state: after create a context in the core's memory; after delete, or a failed create, nothing. */
static void check_state(const struct request *request)
{
    const tivx_target_kernel_instance instance = request->instance;
    const int succeeds = request->status == VX_SUCCESS;
    if (request->callback == (succeeds ? DELETE : CREATE))
        heap_check_freed(instance);
    if (request->callback != CREATE || !succeeds)
        return;
    if (!instance->context)
        fail("the instance context was not set (tivxSetTargetKernelInstanceContext)");
    heap_check_context(instance, instance->context, instance->context_bytes);
}

static void answer_identity(const struct request *request)
{
    const struct buffer *first = request->buffers[0];
    if (request->callback == CONTROL && request->asked == COMMAND_IDENTIFY && request->count == 1 && first &&
        first->bytes >= sizeof(struct identity))
        fault_of_identity((struct identity *)(void *)first->store);
}

void target_execute(struct request *request)
{
    char label[LABEL];
    const tivx_target_kernel kernel = request->instance->kernel;
    snprintf(label, LABEL, "%s on %s, %s: ", kernel->name, core_name(kernel->core), callback_names[request->callback]);
    label_messages(label);
    running.request = request;
    request->begin_us = now_us();
    request->status = call(request);
    request->end_us = now_us();
    mapping_check_closed(request);
    check_state(request);
    answer_identity(request);
    running.request = NULL;
    label_messages("");
}
