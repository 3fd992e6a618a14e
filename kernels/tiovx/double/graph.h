/* Graphs and their nodes. */
#ifndef GRAPH_H
#define GRAPH_H

#include "kernel.h"
#include "target.h"

enum { MAX_NODES = 256 };

struct _vx_node {
    struct _vx_reference base;
    vx_graph graph;
    vx_kernel kernel;
    enum core core;
    struct data *parameters[MAX_REFERENCES];
    tivx_target_kernel_instance instance; /* NULL: there is none on the core */
    int initialized;                      /* by the kernel's function on the A72 */
    vx_status status;                     /* of its last execution */
    vx_perf_t perf;
};

struct _vx_graph {
    struct _vx_reference base;
    vx_node nodes[MAX_NODES]; /* once verified, each behind those that it depends on */
    size_t count;
    int verified;
    atomic_int running;
    vx_node failed; /* whose status nobody has asked for */
    vx_perf_t perf;
};

/* Asks the node's instance on its core. */
vx_status node_ask(vx_node node, enum callback callback, struct request *request);

/* Undoes what vxVerifyGraph did for a node. */
void node_end(vx_node node);

#endif
