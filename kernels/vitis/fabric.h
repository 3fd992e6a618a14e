/* The FPGA as the rest of the program sees it: kernels with a buffer for what they are given and one for what they made.
 *
 * Behind it is XRT's native C++ API (xrt.cpp).  Whatever goes wrong ends the program with what to do.
 */
#ifndef FABRIC_H
#define FABRIC_H

#include <stddef.h>
#include <stdint.h>

#include "question.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fabric; /* a kernel */

/* Times of the last query in nanoseconds: to the fabric, in it, and back. */
struct fabric_times {
    uint64_t to_device_ns, kernel_ns, from_device_ns;
};

/* The metadata of what is in the fabric, from the generated code; a relative path starts at the program's folder. */
struct fabric_settings {
    const char *xclbin;
    const char *const *kernels; /* all that it must have */
    size_t kernel_count;
    unsigned timeout_s;         /* of a question */
};
extern const struct fabric_settings fabric_settings;

/* Opens the kernel called `name`, and the FPGA if no kernel is open. */
struct fabric *fabric_open(const char *name, size_t given_words, size_t made_words);
void fabric_close(struct fabric *kernel);

int32_t *fabric_given(const struct fabric *kernel);
const int32_t *fabric_made(const struct fabric *kernel);

/* Hands over vectors * given_width words, waits, takes back vectors * made_width words. */
struct fabric_times fabric_ask(struct fabric *kernel, const struct question *asked);

/* Name of the FPGA, "" if unknown; whether XRT simulates it; the UUID of its application. */
const char *fabric_name(void);
const char *fabric_xclbin(void);

#ifdef __cplusplus
}
#endif

#endif
