/* Firmware of a core: the C7x's has the kernels of harness, if compiled with FIRMWARE_KERNELS. */
#ifndef FIRMWARE_H
#define FIRMWARE_H

#include "request.h"

/* Both are called by the core itself. */
void firmware_start(enum core core);
void firmware_end(enum core core);

#endif
