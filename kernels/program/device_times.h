/* Times that accelerators measured themselves: DIR/times_<item>.jsonl, one line for each timed part. */
#ifndef DEVICE_TIMES_H
#define DEVICE_TIMES_H

#include <stdint.h>

/* Creates the file of an item in `folder`; exits with a message where it cannot be. */
void device_times_open(const char *folder, const char *item);

/* `kind` is what the driver calls it: node, kernel, to_device. */
void device_times_write(const char *kind, const char *name, uint64_t executions, uint64_t average_ns, uint64_t least_ns,
                        uint64_t greatest_ns);

void device_times_close(void);

#endif
