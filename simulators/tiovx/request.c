#include "request.h"

#include <TI/tivx.h>
#include <string.h>

static const char *const names[CORES] = {[DSP_C7_1] = TIVX_TARGET_DSP_C7_1, [MPU_0] = TIVX_TARGET_MPU_0};

THREAD_LOCAL struct running running = {.core = NO_CORE};

const struct request *request_calling(const char *function)
{
    if (!running.request)
        fail("%s: called outside a callback of a kernel", function);
    return running.request;
}

enum core core_named(const char *name)
{
    enum core core = 0;
    while (core < CORES && (!name || strcmp(names[core], name) != 0))
        ++core;
    return core;
}

const char *core_name(enum core core)
{
    return core < CORES ? names[core] : "the program";
}
