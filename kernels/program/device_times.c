#include "device_times.h"

#include <inttypes.h>
#include <stdio.h>

#include "fail.h"

static FILE *file; /* items are closed one after the other */
static char path[4096];

void device_times_open(const char *folder, const char *item)
{
    if (snprintf(path, sizeof path, "%s/times_%s.jsonl", folder, item) >= (int)sizeof path)
        fail(EXIT_USAGE, "--out %s: the path is too long", folder);
    file = fopen(path, "w");
    if (!file)
        fail_errno(EXIT_IO, "cannot write", path);
}

void device_times_write(const char *kind, const char *name, uint64_t executions, uint64_t average_ns, uint64_t least_ns,
                        uint64_t greatest_ns)
{
    fprintf(file, "{\"%s\": \"%s\", \"executions\": %" PRIu64 ", \"average_ns\": %" PRIu64, kind, name, executions,
            average_ns);
    fprintf(file, ", \"least_ns\": %" PRIu64 ", \"greatest_ns\": %" PRIu64 "}\n", least_ns, greatest_ns);
}

void device_times_close(void)
{
    if (fclose(file) != 0)
        fail_errno(EXIT_IO, "cannot write", path);
}
