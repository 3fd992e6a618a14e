/* Graphs. */
#ifndef GRAPH_H
#define GRAPH_H

#include "node.h"

enum { MAX_NODES = 256 };

struct _vx_graph {
    struct _vx_reference base;
    vx_node nodes[MAX_NODES]; /* once verified, each behind those that it depends on */
    size_t count;
    int verified;
    atomic_int running;
    vx_node failed; /* whose status nobody has asked for */
    vx_perf_t perf;
};

#endif
