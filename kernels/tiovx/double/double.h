/* A double of TIOVX, for boards without a TDA4VM: the harness's own implementation of the few functions that it calls.
 *
 *     core.h     the cores, each a thread that answers one command at a time: DSP_C7-1 with the kernels of its
 *                firmware (firmware.c), MPU-0 with those that the program registers
 *     buffer.h   buffers, as each core sees them, and the memory of kernels
 *     target.h   kernels on cores, their instances and callbacks
 *     object.h   references of the program: context, kernels, graphs, nodes, tensors, ...
 *     faults.h   what the environment lets go wrong
 *     perf.h     times
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

/* Tells what went wrong, and in which callback of which kernel if one runs; ends the process at once, from wherever. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells it and gives the status. */
vx_status refuse(vx_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory of the double itself, zeroed; never NULL. */
void *allocate(size_t bytes);

#endif
