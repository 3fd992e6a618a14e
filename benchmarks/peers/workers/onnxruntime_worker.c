/* ONNX Runtime by its C API. Arguments: LIBRARY MODEL INPUT-NAME OUTPUT-NAME INPUT-WIDTH OUTPUT-WIDTH */
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "onnxruntime.h"
#include "worker.h"

static float *input, *output;
static size_t input_width;

static void run(const float *vector)
{
    memcpy(input, vector, input_width * sizeof *vector);
    runtime_run();
}

struct contender contender_open(char **arguments)
{
    for (int i = 0; i < 6; ++i)
        if (!arguments[i])
            fail(EXIT_USAGE, "expected LIBRARY MODEL INPUT-NAME OUTPUT-NAME INPUT-WIDTH OUTPUT-WIDTH");
    const struct runtime_model model = {
        .library = arguments[0],
        .path = arguments[1],
        .input_name = arguments[2],
        .output_name = arguments[3],
        .input_width = strtoul(arguments[4], NULL, 10),
        .output_width = strtoul(arguments[5], NULL, 10),
    };
    input_width = model.input_width;
    input = allocate(model.input_width, sizeof *input);
    output = allocate(model.output_width, sizeof *output);
    runtime_open(&model, input, output);
    return (struct contender){model.input_width, model.output_width, run, output};
}
