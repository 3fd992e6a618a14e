/* Nodes of graphs, and their instances on cores. */
#ifndef NODE_H
#define NODE_H

#include "kernel.h"

struct _vx_node {
    struct _vx_reference base;
    vx_graph graph;
    vx_kernel kernel;
    enum core core;
    struct data *parameters[MAX_REFERENCES];
    struct _tivx_target_kernel_instance *instance; /* NULL: there is none on the core */
    int initialized;                               /* by the kernel's function on the A72 */
    vx_status status;                              /* of its last execution */
    vx_perf_t perf;
};

/* Its parameters as the program's functions are given them. */
const vx_reference *node_references(vx_node node);

/* Returns whether the kernel of the node writes a parameter. */
int node_writes(vx_node node, vx_uint32 index);

/* One more reference of a request. */
void request_refer(struct request *request, struct data *data);

/* Asks the node's instance on its core. */
vx_status node_ask(vx_node node, enum callback callback, struct request *request);

/* The part of vxVerifyGraph for a node on the A72 and on the core, and its reversal. */
vx_status node_begin(vx_node node);
void node_end(vx_node node);

#endif
