#include <signal.h>
#include <stdio.h>
#include <utils/app_init/include/app_init.h>

#include "core.h"
#include "faults.h"
#include "heap.h"
#include "kernel.h"
#include "mapping.h"
#include "target.h"

static struct sigaction before;

/* Leaves faults outside the double's memory to the earlier handler, when the access is repeated. */
static void explain_fault(int signal, siginfo_t *information, void *unused)
{
    (void)unused;
    mapping_explain(information->si_addr);
    heap_explain(information->si_addr);
    sigaction(signal, &before, NULL);
}

static void explain_faults(void)
{
    struct sigaction action = {.sa_sigaction = explain_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
}

int32_t appInit(void)
{
    if (cores_run())
        fail("appInit: a second time");
    faults_read();
    if (fault_of_init())
        return -1;
    explain_faults();
    cores_start();
    printf("APP: Init ... done (double of TIOVX)\n");
    fflush(stdout);
    return 0;
}

int32_t appDeInit(void)
{
    if (!cores_run())
        fail("appDeInit: without appInit");
    if (objects_alive(CONTEXT))
        fail("appDeInit: the context is not released");
    modules_check_empty();
    target_check_empty();
    cores_stop();
    sigaction(SIGSEGV, &before, NULL);
    printf("APP: Deinit ... done (double of TIOVX)\n");
    fflush(stdout);
    return 0;
}
