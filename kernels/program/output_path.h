/* The files that the program writes, in the folder of --out. */
#ifndef OUTPUT_PATH_H
#define OUTPUT_PATH_H

#include <stdio.h>

#include "fail.h"
#include "options.h"

struct path {
    char text[4096];
};

/* DIR/<name>.npy; exits with a message where that is too long. */
static inline struct path output_path(const struct options *options, const char *name)
{
    struct path path;
    if (snprintf(path.text, sizeof path.text, "%s/%s.npy", options->out, name) >= (int)sizeof path.text)
        fail(EXIT_USAGE, "--out %s: the path is too long", options->out);
    return path;
}

#endif
