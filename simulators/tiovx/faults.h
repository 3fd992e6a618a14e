/* Faults by environment variable, several separated by commas; any other value ends the process:
 *
 *     HARNESS_DOUBLE_FAULT=hang@3       the third process command never answers, nor does its core from then on
 *     HARNESS_DOUBLE_FAULT=fail@3       the third process command returns VX_FAILURE
 *     HARNESS_DOUBLE_FAULT=memory@3     of the third tensor or user data object there is no memory
 *     HARNESS_DOUBLE_FAULT=verify       vxVerifyGraph returns VX_FAILURE
 *     HARNESS_DOUBLE_FAULT=init         appInit returns -1
 *     HARNESS_DOUBLE_FAULT=missing=org.harness.qgemm    the firmware does not register that kernel
 *     HARNESS_DOUBLE_FAULT=old          kernels say when asked that they are of version 0
 *     HARNESS_DOUBLE_FAULT=other        they say that they were made of other sources
 *
 * Counted are commands and objects of the whole process, from 1.  A fault tells when it happens.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "protocol.h"

enum process_fault { PROCESS_WELL, PROCESS_HANGS, PROCESS_FAILS };

void faults_read(void);

/* To be asked once for each process command, each object. */
enum process_fault fault_of_process(void);
int fault_of_memory(void);

int fault_of_verify(void);
int fault_of_init(void);
int fault_of_kernel(const char *name);
void fault_of_identity(struct identity *answer);

#endif
