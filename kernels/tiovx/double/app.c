#include "app.h"

#include <stdio.h>
#include <utils/app_init/include/app_init.h>

#include "core.h"
#include "double.h"
#include "faults.h"
#include "kernel.h"
#include "buffer.h"
#include "object.h"
#include "target.h"

static int runs;

int app_runs(void)
{
    return runs;
}

int32_t appInit(void)
{
    if (runs)
        fail("appInit: a second time");
    faults_read();
    if (fault_of_init())
        return -1;
    memory_watch();
    cores_start();
    runs = 1;
    printf("APP: Init ... done (double of TIOVX)\n");
    fflush(stdout);
    return 0;
}

int32_t appDeInit(void)
{
    if (!runs)
        fail("appDeInit: without appInit");
    if (objects_alive(CONTEXT))
        fail("appDeInit: the context is not released");
    modules_check_empty();
    target_check_empty();
    cores_stop();
    memory_unwatch();
    runs = 0;
    printf("APP: Deinit ... done (double of TIOVX)\n");
    fflush(stdout);
    return 0;
}
