/* Faults by environment variable, several separated by commas; any other value ends the process:
 *
 *     HARNESS_DOUBLE_FAULT=no_device    there is no device, as without the driver zocl
 *     HARNESS_DOUBLE_FAULT=load         load_xclbin throws
 *     HARNESS_DOUBLE_FAULT=memory@3     of the third buffer there is no memory
 *     HARNESS_DOUBLE_FAULT=hang@3       the third run never ends, nor does any of its kernel from then on
 *     HARNESS_DOUBLE_FAULT=error@3      the third run ends with ERT_CMD_STATE_ERROR, and its kernel is not called
 *     HARNESS_DOUBLE_FAULT=identity     kernels that are asked for their identity answer with every bit inverted
 *     HARNESS_DOUBLE_FAULT=end          the process never ends by itself, as with XRT 2.13 at times
 *
 * Counted are buffers and runs of the whole process, from 1.  A fault tells when it happens.
 */
#ifndef FAULTS_HPP
#define FAULTS_HPP

namespace xrt_double {

enum class run_fault { none, hang, error };

bool fault_of_device();
bool fault_of_load();
bool fault_of_identity();
bool fault_of_end();

/* To be asked once for each buffer, each run. */
bool fault_of_memory();
run_fault fault_of_run();

} // namespace xrt_double

#endif
