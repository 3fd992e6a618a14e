#include "graph.h"

#include <TI/tivx.h>

#include "core.h"
#include "perf.h"

static void destroy_node(struct _vx_reference *object)
{
    vx_node node = (vx_node)object;
    for (vx_uint32 i = 0; i < node->kernel->parameter_count; ++i)
        if (node->parameters[i])
            object_drop(node->parameters[i]);
    object_drop(node->kernel);
}

/* Its nodes go with it, whoever holds them. */
static void destroy_graph(struct _vx_reference *object)
{
    vx_graph graph = (vx_graph)object;
    for (size_t i = graph->count; i-- > 0;) {
        node_end(graph->nodes[i]);
        object_forget(graph->nodes[i]);
        object_drop(graph->nodes[i]);
    }
}

vx_graph vxCreateGraph(vx_context context)
{
    if (!is_alive(context, CONTEXT, "vxCreateGraph"))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    vx_graph graph = object_new(GRAPH, sizeof *graph, destroy_graph);
    perf_reset(&graph->perf);
    return graph;
}

vx_status vxReleaseGraph(vx_graph *graph)
{
    if (graph && *graph && (*graph)->base.kind == GRAPH && (*graph)->running)
        fail("vxReleaseGraph: %s runs", (*graph)->base.label);
    return object_release(graph, GRAPH, "vxReleaseGraph");
}

/* Alive, and not verified: it can still be changed. */
static int is_open(vx_graph graph, const char *function)
{
    if (!is_alive(graph, GRAPH, function))
        return 0;
    return !graph->verified || refuse(0, "%s: %s is verified already", function, graph->base.label);
}

vx_node vxCreateGenericNode(vx_graph graph, vx_kernel kernel)
{
    if (!is_open(graph, "vxCreateGenericNode") || !is_alive(kernel, KERNEL, "vxCreateGenericNode"))
        return no_object(VX_ERROR_INVALID_REFERENCE);
    if (!kernel->finalized)
        return no_object(refuse(VX_ERROR_INVALID_REFERENCE, "vxCreateGenericNode: %s is not finalized",
                                kernel->base.label));
    if (graph->count == MAX_NODES)
        return no_object(refuse(VX_ERROR_NO_RESOURCES, "vxCreateGenericNode: more than %d nodes", MAX_NODES));
    vx_node node = object_new(NODE, sizeof *node, destroy_node);
    node->graph = graph;
    node->kernel = kernel;
    node->core = NO_CORE;
    perf_reset(&node->perf);
    graph->nodes[graph->count++] = node;
    object_hold(node);
    object_hold(kernel);
    return node;
}

vx_status vxReleaseNode(vx_node *node)
{
    return object_release(node, NODE, "vxReleaseNode");
}

vx_status vxSetParameterByIndex(vx_node node, vx_uint32 index, vx_reference value)
{
    const char *function = "vxSetParameterByIndex";
    if (!is_alive(node, NODE, function) || !is_open(node->graph, function))
        return VX_ERROR_INVALID_REFERENCE;
    if (index >= node->kernel->parameter_count || node->parameters[index])
        return refuse(VX_ERROR_INVALID_VALUE, "%s: %s of %s: index %u, of %u, or set before", function,
                      node->base.label, node->kernel->base.label, index, node->kernel->parameter_count);
    if (!is_alive(value, node->kernel->kinds[index], function))
        return refuse(VX_ERROR_INVALID_TYPE, "%s: %s of %s: that was for parameter %u", function, node->base.label,
                      node->kernel->base.label, index);
    node->parameters[index] = (struct data *)value;
    object_hold(value);
    return VX_SUCCESS;
}

vx_status vxSetNodeTarget(vx_node node, vx_enum target, const char *name)
{
    const char *function = "vxSetNodeTarget";
    const enum core core = core_named(name);
    if (!is_alive(node, NODE, function) || !is_open(node->graph, function))
        return VX_ERROR_INVALID_REFERENCE;
    if (target != VX_TARGET_STRING || core == NO_CORE || !node->kernel->targets[core])
        return refuse(VX_ERROR_NOT_SUPPORTED, "%s: %s: %s is not for core '%s' (target %d)", function, node->base.label,
                      node->kernel->base.label, name ? name : "NULL", target);
    node->core = core;
    return VX_SUCCESS;
}

/* Marks the results, so that readers know which are missing. */
static void mark_results(vx_graph graph, vx_status status)
{
    for (size_t i = 0; i < graph->count; ++i)
        for (vx_uint32 k = 0; k < graph->nodes[i]->kernel->parameter_count; ++k)
            if (node_writes(graph->nodes[i], k))
                graph->nodes[i]->parameters[k]->unasked = status;
}

static vx_status give_status(vx_node node, void *value, vx_size size)
{
    const vx_status status = give(value, size, &node->status, sizeof node->status, "VX_NODE_STATUS");
    if (status == VX_SUCCESS && node->graph->failed == node) {
        mark_results(node->graph, VX_SUCCESS);
        node->graph->failed = NULL;
    }
    return status;
}

vx_status vxQueryNode(vx_node node, vx_enum attribute, void *value, vx_size size)
{
    if (!is_alive(node, NODE, "vxQueryNode"))
        return VX_ERROR_INVALID_REFERENCE;
    switch (attribute) {
    case VX_NODE_STATUS: return give_status(node, value, size);
    case VX_NODE_PERFORMANCE: return give(value, size, &node->perf, sizeof node->perf, "VX_NODE_PERFORMANCE");
    default: return refuse(VX_ERROR_NOT_SUPPORTED, "vxQueryNode: attribute %d", attribute);
    }
}

vx_status vxQueryGraph(vx_graph graph, vx_enum attribute, void *value, vx_size size)
{
    if (!is_alive(graph, GRAPH, "vxQueryGraph"))
        return VX_ERROR_INVALID_REFERENCE;
    if (attribute != VX_GRAPH_PERFORMANCE)
        return refuse(VX_ERROR_NOT_SUPPORTED, "vxQueryGraph: attribute %d", attribute);
    return give(value, size, &graph->perf, sizeof graph->perf, "VX_GRAPH_PERFORMANCE");
}

/* Marks the objects of a running graph, which the program may not access. */
static void mark_busy(vx_graph graph, int change)
{
    for (size_t i = 0; i < graph->count; ++i)
        for (vx_uint32 k = 0; k < graph->nodes[i]->kernel->parameter_count; ++k)
            graph->nodes[i]->parameters[k]->base.busy += change;
}

/* As in TIOVX, a node's failure is told by its VX_NODE_STATUS alone; the nodes behind it are left out here. */
static void run_nodes(vx_graph graph)
{
    struct request request;
    for (size_t i = 0; i < graph->count && !graph->failed; ++i) {
        vx_node node = graph->nodes[i];
        node->status = node_ask(node, PROCESS, &request);
        perf_add(&node->perf, request.begin_us, request.end_us);
        graph->failed = node->status == VX_SUCCESS ? NULL : node;
    }
    if (graph->failed)
        mark_results(graph, refuse(graph->failed->status, "%s (%s) failed with status %d", graph->failed->base.label,
                                   graph->failed->kernel->name, graph->failed->status));
}

vx_status vxProcessGraph(vx_graph graph)
{
    if (!is_alive(graph, GRAPH, "vxProcessGraph"))
        return VX_ERROR_INVALID_REFERENCE;
    if (!graph->verified)
        fail("vxProcessGraph: %s is not verified", graph->base.label);
    if (atomic_exchange(&graph->running, 1))
        fail("vxProcessGraph: %s runs already", graph->base.label);
    if (graph->failed)
        fail("vxProcessGraph: %s failed with status %d, and nobody has asked for its VX_NODE_STATUS",
             graph->failed->base.label, graph->failed->status);
    const uint64_t begin_us = now_us();
    mark_busy(graph, 1);
    run_nodes(graph);
    mark_busy(graph, -1);
    perf_add(&graph->perf, begin_us, now_us());
    graph->running = 0;
    return VX_SUCCESS;
}

static int take_references(struct request *request, vx_reference references[], uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        const enum kind kind = references[i] ? references[i]->kind : NO_OBJECT;
        if (kind != TENSOR && kind != SCALAR && kind != USER_DATA_OBJECT)
            return refuse(0, "tivxNodeSendCommand: reference %u is no data", i);
        if (!is_alive(references[i], kind, "tivxNodeSendCommand"))
            return 0;
        request_refer(request, (struct data *)references[i]);
    }
    return 1;
}

vx_status tivxNodeSendCommand(vx_node node, uint32_t replicated_node, uint32_t asked, vx_reference references[],
                              uint32_t count)
{
    if (!is_alive(node, NODE, "tivxNodeSendCommand"))
        return VX_ERROR_INVALID_REFERENCE;
    if (!node->graph->verified)
        return refuse(VX_ERROR_INVALID_GRAPH, "tivxNodeSendCommand: the graph of %s is not verified", node->base.label);
    struct request request = {.callback = CONTROL, .asked = asked, .instance = node->instance};
    if (replicated_node != 0 || count > MAX_REFERENCES || (count && !references))
        return refuse(VX_ERROR_INVALID_PARAMETERS, "tivxNodeSendCommand: %s: replica %u, %u references",
                      node->base.label, replicated_node, count);
    if (!take_references(&request, references, count))
        return VX_ERROR_INVALID_REFERENCE;
    for (uint32_t i = 0; i < count; ++i)
        references[i]->busy += 1;
    const vx_status status = core_ask(node->core, &request);
    for (uint32_t i = 0; i < count; ++i)
        references[i]->busy -= 1;
    return status;
}
