/* Environment variables of the stand-in: another GPU, another driver, faults.
 *
 *     HARNESS_SIMULATED_ARCH=87                                  the GPU is sm_87
 *     HARNESS_SIMULATED_DRIVER=11080                             the driver is for CUDA 11.8
 *     HARNESS_SIMULATED_LEAKS=1                                  cuCtxDestroy lists on stderr what still exists
 *     HARNESS_SIMULATED_FAULT=cuMemAlloc_v2=2,cuStreamSynchronize=702@3
 *                                                                calls return an error: all; from the third on
 *     HARNESS_SIMULATED_FAULT=cuStreamSynchronize=hang@2         the second call and later ones never return
 *     HARNESS_SIMULATED_EAGER=2                                  the second stream's work begins when it is added, of
 *                                                                the others when it is waited for; 5: first and third
 *     HARNESS_SIMULATED_STREAMS=7                                streams have threads, delayed as this seed has it
 *     HARNESS_SIMULATED_UNORDERED=1                              accesses of streams need no order: no event is missed
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "block.h"
#include "driver.h"

#define FUNCTION_NUMBER(result, name, arguments) FUNCTION_##name,
enum { CUDA_DRIVER(FUNCTION_NUMBER) FUNCTION_COUNT };

/* To be called once by each function: the error that it must return.  A call that is to hang stays here. */
SIMULATED_HIDDEN CUresult injected_fault(unsigned function);

SIMULATED_HIDDEN int pretended_arch();
SIMULATED_HIDDEN int pretended_driver();
SIMULATED_HIDDEN bool leaks_are_reported();
SIMULATED_HIDDEN bool is_eager(unsigned stream);
SIMULATED_HIDDEN unsigned stream_seed();
SIMULATED_HIDDEN bool unordered_is_allowed();

#endif
