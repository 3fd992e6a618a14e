/* Checks of loaded code: a cubin, which is an ELF file for one kind of GPU, or PTX, a text.
 *
 * Neither is executed here; but no other image, and no other name, is accepted than a GPU of this kind would take.
 * The flags of a cubin are as NVRTC 11 and 12 write them: the GPU in the lowest byte, the toolkit in e_version.
 */
#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>

#include "block.h"
#include "driver.h"

/* CUDA_SUCCESS if a GPU sm_<arch> with a driver (11040: CUDA 11.4) loads the image, else its error. */
SIMULATED_HIDDEN CUresult image_check(const void *image, int arch, int driver);

SIMULATED_HIDDEN size_t image_bytes(const void *image);

struct image_kernel {
    size_t shared_bytes;
    size_t most_threads; /* of a block; SIZE_MAX where the code does not say */
};

/* False if the image has no such kernel. */
SIMULATED_HIDDEN bool image_find_kernel(const void *image, const char *name, image_kernel *kernel);

/* False if the image has no such table. */
SIMULATED_HIDDEN bool image_find_table(const void *image, const char *name, size_t *bytes);

#endif
