/* The part of TI's vision_apps that the harness calls, see ../../../TI/tivx.h. */
#ifndef APP_INIT_H
#define APP_INIT_H

#include <VX/vx.h>

/* Starts and ends this process's share of TIOVX; both tell their steps on standard output, as TI's do. */
VX_API_ENTRY int32_t appInit(void);
VX_API_ENTRY int32_t appDeInit(void);

#endif
