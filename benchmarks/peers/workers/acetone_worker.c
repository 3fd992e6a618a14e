/* C that ACETONE generated: its function, on static buffers. Arguments: INPUT-WIDTH OUTPUT-WIDTH */
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "worker.h"

int inference(float *prediction, float *nn_input); /* declared by its inference.h, which brings all of its arrays */

static float *input, *output;
static size_t input_width;

static void run(const float *vector)
{
    memcpy(input, vector, input_width * sizeof *vector);
    inference(output, input);
}

struct contender contender_open(char **arguments)
{
    if (!arguments[0] || !arguments[1])
        fail(EXIT_USAGE, "expected INPUT-WIDTH OUTPUT-WIDTH");
    input_width = strtoul(arguments[0], NULL, 10);
    const size_t output_width = strtoul(arguments[1], NULL, 10);
    input = allocate(input_width, sizeof *input);
    output = allocate(output_width, sizeof *output);
    return (struct contender){input_width, output_width, run, output};
}
