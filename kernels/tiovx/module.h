/* The host's part of the kernels: what TIOVX asks on the A72 before a graph may run. */
#ifndef MODULE_H
#define MODULE_H

#include <TI/tivx.h>

/* Makes the kernels known to a context, and forgets them. */
vx_status module_load(vx_context context);
vx_status module_unload(vx_context context);

#endif
