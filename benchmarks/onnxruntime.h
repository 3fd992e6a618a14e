/* One model in ONNX Runtime's C API, with preallocated tensors and one thread. */
#ifndef ONNXRUNTIME_H
#define ONNXRUNTIME_H

#include <stddef.h>

/* What to open; the model's input and output are float32 of shape (1, width). */
struct runtime_model {
    const char *library; /* path of libonnxruntime.so */
    const char *path;
    const char *input_name;
    const char *output_name;
    size_t input_width;
    size_t output_width;
};

/* Loads the library and the model, and binds both tensors to these buffers; exits with a message on failure. */
void runtime_open(const struct runtime_model *model, float *input, float *output);

/* One inference from the input buffer into the output buffer. */
void runtime_run(void);

#endif
