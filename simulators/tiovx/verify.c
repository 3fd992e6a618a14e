/* vxVerifyGraph: everything that must hold before a graph may run; then its instances come to be on their cores. */
#include <string.h>

#include "faults.h"
#include "graph.h"

enum { DIMS = TIVX_CONTEXT_MAX_TENSOR_DIMS };

/* Declared properties of a kernel's output. */
struct _vx_meta_format {
    vx_size count, dim_count, dims[DIMS];
    vx_enum type;
    vx_int8 position;
};

static vx_status set(void *field, vx_size room, const void *value, vx_size size, const char *what)
{
    if (!value || size != room)
        return refuse(VX_ERROR_INVALID_PARAMETERS, "vxSetMetaFormatAttribute: %s is %zu bytes, given %zu", what, room,
                      size);
    memcpy(field, value, size);
    return VX_SUCCESS;
}

vx_status vxSetMetaFormatAttribute(vx_meta_format meta, vx_enum attribute, const void *value, vx_size size)
{
    if (!meta)
        return refuse(VX_ERROR_INVALID_REFERENCE, "vxSetMetaFormatAttribute: no meta format");
    switch (attribute) {
    case VX_TENSOR_NUMBER_OF_DIMS:
        return set(&meta->count, sizeof meta->count, value, size, "VX_TENSOR_NUMBER_OF_DIMS");
    case VX_TENSOR_DATA_TYPE: return set(&meta->type, sizeof meta->type, value, size, "VX_TENSOR_DATA_TYPE");
    case VX_TENSOR_FIXED_POINT_POSITION: return set(&meta->position, 1, value, size, "VX_TENSOR_FIXED_POINT_POSITION");
    case VX_TENSOR_DIMS:
        meta->dim_count = size / sizeof *meta->dims;
        return set(meta->dims, meta->dim_count <= DIMS ? meta->dim_count * sizeof *meta->dims : sizeof meta->dims,
                   value, size, "VX_TENSOR_DIMS");
    default: return refuse(VX_ERROR_INVALID_TYPE, "vxSetMetaFormatAttribute: attribute %d", attribute);
    }
}

static vx_status differs(vx_node node, vx_uint32 index, const char *what)
{
    return refuse(VX_ERROR_INVALID_TYPE, "vxVerifyGraph: %s of %s, parameter %u (%s): validate %s", node->base.label,
                  node->kernel->base.label, index, node->parameters[index]->base.label, what);
}

static vx_status check_meta(vx_node node, vx_uint32 index, const struct _vx_meta_format *meta)
{
    const struct data *data = node->parameters[index];
    const tivx_obj_desc_tensor_t *tensor = &data->descriptor.tensor;
    if (!meta->count || !meta->dim_count || !meta->type)
        return differs(node, index, "has left its meta format unset");
    if (meta->count != tensor->number_of_dimensions || meta->dim_count != meta->count)
        return differs(node, index, "says it has other dimensions");
    for (vx_size i = 0; i < meta->count; ++i)
        if (meta->dims[i] != tensor->dimensions[i])
            return differs(node, index, "says it has other dimensions");
    if ((uint32_t)meta->type != tensor->data_type || meta->position != data->fixed_point_position)
        return differs(node, index, "says it has another data type");
    return VX_SUCCESS;
}

static vx_status validate(vx_node node)
{
    struct _vx_meta_format formats[MAX_REFERENCES] = {{0}};
    vx_meta_format metas[MAX_REFERENCES];
    const vx_uint32 count = node->kernel->parameter_count;
    for (size_t i = 0; i < MAX_REFERENCES; ++i)
        metas[i] = &formats[i];
    vx_status status = node->kernel->validate(node, node_references(node), count, metas);
    if (status != VX_SUCCESS)
        return refuse(status, "vxVerifyGraph: %s of %s: validate returned %d", node->base.label,
                      node->kernel->base.label, status);
    for (vx_uint32 i = 0; i < count && status == VX_SUCCESS; ++i)
        if (node_writes(node, i))
            status = check_meta(node, i, &formats[i]);
    return status;
}

static vx_status check_node(vx_node node)
{
    if (node->core == NO_CORE)
        return refuse(VX_ERROR_INVALID_NODE, "vxVerifyGraph: %s of %s has no target (vxSetNodeTarget)",
                      node->base.label, node->kernel->base.label);
    for (vx_uint32 i = 0; i < node->kernel->parameter_count; ++i)
        if (!node->parameters[i])
            return refuse(VX_ERROR_INVALID_PARAMETERS, "vxVerifyGraph: %s of %s lacks parameter %u", node->base.label,
                          node->kernel->base.label, i);
    return validate(node);
}

/* Returns whether one node writes, or else reads, an object that the other writes. */
static int meets(vx_node one, int writing, vx_node writer)
{
    for (vx_uint32 i = 0; i < one->kernel->parameter_count; ++i)
        for (vx_uint32 k = 0; k < writer->kernel->parameter_count; ++k)
            if (node_writes(one, i) == writing && node_writes(writer, k) &&
                one->parameters[i] == writer->parameters[k])
                return 1;
    return 0;
}

/* The first node from `place` on that depends on no node there. */
static size_t find_next(vx_graph graph, size_t place)
{
    for (size_t i = place; i < graph->count; ++i) {
        int ready = 1;
        for (size_t k = place; k < graph->count; ++k)
            ready &= !meets(graph->nodes[i], 0, graph->nodes[k]);
        if (ready)
            return i;
    }
    return graph->count;
}

static vx_status sort(vx_graph graph)
{
    for (size_t i = 0; i < graph->count; ++i)
        for (size_t k = i + 1; k < graph->count; ++k)
            if (meets(graph->nodes[i], 1, graph->nodes[k]))
                return refuse(VX_ERROR_INVALID_GRAPH, "vxVerifyGraph: %s and %s write the same data",
                              graph->nodes[i]->base.label, graph->nodes[k]->base.label);
    for (size_t place = 0; place < graph->count; ++place) {
        const size_t next = find_next(graph, place);
        if (next == graph->count)
            return refuse(VX_ERROR_INVALID_GRAPH, "vxVerifyGraph: the nodes of %s depend on each other in a circle",
                          graph->base.label);
        vx_node node = graph->nodes[next];
        memmove(&graph->nodes[place + 1], &graph->nodes[place], (next - place) * sizeof node);
        graph->nodes[place] = node;
    }
    return VX_SUCCESS;
}

vx_status vxVerifyGraph(vx_graph graph)
{
    if (!is_alive(graph, GRAPH, "vxVerifyGraph"))
        return VX_ERROR_INVALID_REFERENCE;
    if (graph->verified || graph->count == 0)
        return refuse(VX_ERROR_INVALID_GRAPH, "vxVerifyGraph: %s %s", graph->base.label,
                      graph->verified ? "is verified already" : "has no nodes");
    if (fault_of_verify())
        return VX_FAILURE;
    vx_status status = VX_SUCCESS;
    for (size_t i = 0; i < graph->count && status == VX_SUCCESS; ++i)
        status = check_node(graph->nodes[i]);
    if (status == VX_SUCCESS)
        status = sort(graph);
    for (size_t i = 0; i < graph->count && status == VX_SUCCESS; ++i)
        status = node_begin(graph->nodes[i]);
    for (size_t i = graph->count; i-- > 0 && status != VX_SUCCESS;)
        node_end(graph->nodes[i]);
    graph->verified = status == VX_SUCCESS;
    return status;
}
