/* A double of TIOVX, for boards without a TDA4VM: the harness's own implementation of the few functions that it calls.
 *
 * A file includes and calls only files below it:
 *
 *     app.c                     the process's share of TIOVX
 *     verify.c                  what must hold before a graph may run
 *     graph.h                   graphs
 *     node.h                    nodes, and their instances on cores
 *     kernel.h, data.c          context, modules, kernels; tensors, scalars, user data objects
 *     core.h, object.h          cores, each a thread that answers one request at a time; references of the program
 *     firmware.h                what is built into a core
 *     target.h                  kernels on cores: DSP_C7-1 has those of its firmware, MPU-0 what the program registers
 *     mapping.h                 buffers as kernels use them
 *     buffer.h, heap.h          buffers as each core sees them; the memory of kernels
 *     request.h, pages.h        what is asked of a core, and what runs on this thread; memory that can be closed
 *     faults.h, perf.h          what the environment lets go wrong; times
 *     double.h (strict.c)       how all this tells what is wrong
 *
 * It is strict where TI's emulation for PCs is lax: whatever would go wrong, or could, on a TDA4VM is told here in a
 * line on standard error that begins "TIOVX double: ".  Where TIOVX has an error status for it, that is returned;
 * everything else ends the process.  Like TIOVX it takes for granted that one object is not changed by two threads at
 * once; different objects may be, and so may graphs run.
 */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <VX/vx.h>

enum { EXIT_STRICT = 4 };

/* For a thread's variable that a signal handler may read: it must exist without an allocation. */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Tells what went wrong; ends the process at once, from wherever. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells it and gives the status. */
vx_status refuse(vx_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the prefix of this thread's messages; `label` must outlive them. */
void label_messages(const char *label);

/* Memory of the double itself, zeroed; never NULL. */
void *allocate(size_t bytes);

#endif
