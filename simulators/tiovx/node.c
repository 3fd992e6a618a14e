#include "node.h"

#include "core.h"
#include "target.h"

const vx_reference *node_references(vx_node node)
{
    return (const vx_reference *)(const void *)node->parameters;
}

int node_writes(vx_node node, vx_uint32 index)
{
    return node->kernel->directions[index] != VX_INPUT;
}

void request_refer(struct request *request, struct data *data)
{
    request->descriptors[request->count] = &data->descriptor.any;
    request->buffers[request->count++] = data->buffer;
}

vx_status node_ask(vx_node node, enum callback callback, struct request *request)
{
    *request = (struct request){.callback = callback, .instance = node->instance,
                                .directions = node->kernel->directions};
    for (vx_uint32 i = 0; i < node->kernel->parameter_count; ++i)
        request_refer(request, node->parameters[i]);
    return core_ask(node->core, request);
}

static vx_status create(vx_node node)
{
    struct request request;
    vx_status status = instance_open(node->kernel->name, node->core, &node->instance);
    if (status != VX_SUCCESS)
        return status;
    status = node_ask(node, CREATE, &request);
    if (status == VX_SUCCESS)
        return VX_SUCCESS;
    instance_close(&node->instance);
    return refuse(status, "vxVerifyGraph: %s of %s on %s: create returned %d", node->base.label,
                  node->kernel->base.label, core_name(node->core), status);
}

vx_status node_begin(vx_node node)
{
    const vx_kernel_initialize_f initialize = node->kernel->initialize;
    const vx_status status =
        initialize ? initialize(node, node_references(node), node->kernel->parameter_count) : VX_SUCCESS;
    node->initialized = status == VX_SUCCESS;
    if (status != VX_SUCCESS)
        return refuse(status, "vxVerifyGraph: %s of %s: initialize returned %d", node->base.label,
                      node->kernel->base.label, status);
    return create(node);
}

void node_end(vx_node node)
{
    struct request request;
    if (node->instance) {
        const vx_status status = node_ask(node, DELETE, &request);
        if (status != VX_SUCCESS)
            fail("%s of %s: delete returned %d", node->base.label, node->kernel->base.label, status);
        instance_close(&node->instance);
    }
    if (node->initialized && node->kernel->deinitialize)
        node->kernel->deinitialize(node, node_references(node), node->kernel->parameter_count);
    node->initialized = 0;
}
