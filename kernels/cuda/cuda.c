#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#include "fail.h"
#include "gpu.h"

enum { OLDEST_DRIVER = 11000, NAME_SIZE = 128 }; /* the compiler is of CUDA 11, whose code older drivers do not know */

struct cuda cuda;

static char device[2 * NAME_SIZE] = "no GPU opened";

static const struct {
    CUresult error;
    const char *advice;
} advices[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, "use a smaller --block, or end what else uses the GPU"},
    {CUDA_ERROR_NO_DEVICE, "the driver sees no GPU: check nvidia-smi, or tegrastats on a Jetson"},
    {CUDA_ERROR_INVALID_IMAGE, "the driver does not read this code: it is too old, or for another kind of machine"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "add the GPU's architecture to cuda.archs of the board's profile"},
    {CUDA_ERROR_INVALID_PTX, "the driver cannot compile the PTX: add the GPU's architecture to cuda.archs"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "set cuda.ptx of the profile to what the driver reads, or list the GPU in cuda.archs"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel ran longer than the driver lets it: use a smaller --block"},
    {CUDA_ERROR_LAUNCH_FAILED, "the kernel failed: see the board's kernel log (dmesg) for Xid or MMU lines"},
    {46, "another process has the GPU for itself: nvidia-smi -c 0 ends that"},
    {214, "an ECC error that was not corrected: the GPU's memory is damaged"},
    {700, "a kernel left its memory: report it"},
    {803, "driver and kernel module differ: reboot the board after the driver's update"},
    {804, "the CUDA compatibility package does not support this GPU: remove it from LD_LIBRARY_PATH"},
    {999, "the GPU was lost or the driver failed: see the board's kernel log (dmesg), then reboot it"},
};

static const char *advice(CUresult error)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; ++i)
        if (advices[i].error == error)
            return advices[i].advice;
    return "see the board's kernel log (dmesg)";
}

void cuda_check(CUresult result, const char *function, const char *what)
{
    const char *name = NULL;
    if (result == CUDA_SUCCESS)
        return;
    if (!cuda.cuGetErrorName || cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "an error unknown to the driver";
    fail(EXIT_SYSTEM, "%s (%s): %s (%d): %s", function, what, name, result, advice(result));
}

/* As POSIX has it: ISO C knows no way from an object's address to a function's. */
#define CUDA_FIND(result, name, arguments) *(void **)&cuda.name = find(library, #name);

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function)
        fail(EXIT_SYSTEM, "the NVIDIA driver has no %s: it is older than CUDA 11.4; update it, or JetPack to 5", name);
    return function;
}

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(EXIT_SYSTEM, "no NVIDIA driver: %s; install it, or choose another target with --items", dlerror());
    CUDA_DRIVER(CUDA_FIND)
}

static int attribute(int which, CUdevice gpu)
{
    int value;
    CUDA(cuDeviceGetAttribute, "asking the GPU", &value, which, gpu);
    return value;
}

static const struct gpu_image *choose_image(int arch, const char *name)
{
    for (size_t i = 0; i < gpu_image_count; ++i)
        if (gpu_images[i].ptx ? gpu_images[i].arch <= arch : gpu_images[i].arch == arch)
            return &gpu_images[i];
    fail(EXIT_SYSTEM, "%s is sm_%d, for which the program holds no code: add sm_%d to cuda.archs of the board's profile "
         "(cuda:tensor has none before sm_72)",
         name, arch, arch);
}

static CUdevice first_device(int *driver)
{
    CUdevice found;
    int count;
    CUDA(cuInit, "starting the driver", 0);
    CUDA(cuDriverGetVersion, "asking the driver", driver);
    if (*driver < OLDEST_DRIVER)
        fail(EXIT_SYSTEM, "the NVIDIA driver is for CUDA %d.%d, the code needs 11.0 or later: update the driver",
             *driver / 1000, *driver % 1000 / 10);
    CUDA(cuDeviceGetCount, "counting GPUs", &count);
    cuda_check(count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount", "counting GPUs");
    CUDA(cuDeviceGet, "the first GPU", &found, 0);
    return found;
}

void cuda_open(CUcontext *context, CUmodule *module, unsigned *multiprocessors, unsigned *shared_bytes)
{
    char name[NAME_SIZE];
    int driver;
    load_driver();
    const CUdevice found = first_device(&driver);
    CUDA(cuDeviceGetName, "the first GPU", name, sizeof name, found);
    const int arch = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, found) +
                     attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, found);
    *multiprocessors = (unsigned)attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, found);
    *shared_bytes = (unsigned)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, found);
    const struct gpu_image *image = choose_image(arch, name);
    snprintf(device, sizeof device, "%s, sm_%d, driver for CUDA %d.%d, %s sm_%d", name, arch, driver / 1000,
             driver % 1000 / 10, image->ptx ? "compiled by the driver from PTX for" : "cubin for", image->arch);
    CUDA(cuCtxCreate_v2, "opening the GPU", context, gpu_wait, found);
    CUDA(cuModuleLoadData, device, module, image->begin);
}

void cuda_close(CUcontext context, CUmodule module)
{
    CUDA(cuModuleUnload, "closing the GPU", module);
    CUDA(cuCtxDestroy_v2, "closing the GPU", context);
}

const char *gpu_device(void)
{
    return device;
}
