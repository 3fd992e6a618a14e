/* The part of LiteRT's C interface that an item needs, as libLiteRt.so of ai-edge-litert 2.1.2 has it.
 *
 * These are our own declarations: handles are pointers to what LiteRT keeps, a function returns 0 or a status.  The
 * build takes only the library with a known SHA-256 (harness/targets/litert/library.py).
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct litert_handle *litert_handle;

enum { LITERT_CPU = 1 };                                           /* set of accelerators */
enum { LITERT_FLOAT32 = 1, LITERT_INT32 = 2, LITERT_INT64 = 4, LITERT_INT8 = 9 }; /* element types */
enum { LITERT_RANK = 8 };

/* A tensor's type; the first bits of `shape` are its rank, the strides are not given. */
struct litert_type {
    int element;
    uint32_t shape;
    int32_t sizes[LITERT_RANK];
    uint32_t strides[LITERT_RANK];
};

int LiteRtCreateEnvironment(int count, const void *options, litert_handle *environment);
int LiteRtCreateModelFromBuffer(const void *file, size_t bytes, litert_handle *model);
int LiteRtCreateOptions(litert_handle *options);
int LiteRtSetOptionsHardwareAccelerators(litert_handle options, int accelerators);
int LiteRtCreateCpuOptions(litert_handle *opaque);
int LiteRtFindCpuOptions(litert_handle opaque, litert_handle *cpu);
int LiteRtSetCpuOptionsNumThread(litert_handle cpu, int threads);
int LiteRtSetCpuOptionsXNNPackFlags(litert_handle cpu, uint32_t flags);
int LiteRtAddOpaqueOptions(litert_handle options, litert_handle opaque);
int LiteRtCreateCompiledModel(litert_handle environment, litert_handle model, litert_handle options,
                              litert_handle *compiled);
int LiteRtCompiledModelIsFullyAccelerated(litert_handle compiled, bool *whole);
int LiteRtCreateTensorBufferFromHostMemory(const struct litert_type *type, void *memory, size_t bytes,
                                           void (*release)(void *), litert_handle *buffer);
int LiteRtRunCompiledModel(litert_handle compiled, size_t signature, size_t input_count, litert_handle *inputs,
                           size_t output_count, litert_handle *outputs);
void LiteRtDestroyTensorBuffer(litert_handle buffer);
void LiteRtDestroyCompiledModel(litert_handle compiled);
void LiteRtDestroyOptions(litert_handle options);
void LiteRtDestroyModel(litert_handle model);
void LiteRtDestroyEnvironment(litert_handle environment);
const char *LiteRtGetStatusString(int status);

#endif
