/* The cores: a thread each, with a queue, which answers one request at a time. */
#ifndef CORE_H
#define CORE_H

#include "request.h"

void cores_start(void);
/* When nobody waits for an answer any more. */
void cores_stop(void);
int cores_run(void);

/* Waits for the answer; its status. */
vx_status core_ask(enum core core, struct request *request);

#endif
