#define _GNU_SOURCE
#include "stdout_redirect.h"

#include <stdio.h>
#include <unistd.h>

#include "fail.h"

static int begun, standard_output; /* the program's own */

void quiet_begin(void)
{
    if (begun++)
        return;
    fflush(stdout);
    standard_output = dup(STDOUT_FILENO);
    if (standard_output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        fail_errno(EXIT_SYSTEM, "cannot redirect", "standard output");
}

void quiet_end(void)
{
    if (--begun)
        return;
    fflush(stdout);
    if (dup2(standard_output, STDOUT_FILENO) < 0)
        fail_errno(EXIT_SYSTEM, "cannot restore", "standard output");
    close(standard_output);
}
