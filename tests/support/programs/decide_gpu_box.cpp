/* decide_box by the GPU's kernel, on the simulator of a GPU. */
#include <algorithm>
#include <mutex>
#include <vector>

#include "cuda_on_cpu.h"

extern "C" {
#include "decide.h"
}
#include "decide.cu"

enum { BLOCKS = 3 };

const simulated_kernel kernel = SIMULATED_KERNEL(decide_batches, true);

static bool fits(const DecideLayer &layer)
{
    const int16_t *const end = layer.weights + layer.depth * layer.padded;
    return std::all_of(layer.weights, end, [](int16_t w) { return w == (int8_t)w; });
}

extern "C" uint64_t decide_box(const DecideNetwork *network, const DecideBox *box, const int32_t *shape,
                               DecideRegions *regions)
{
    unsigned long long count = 0;
    if (!decide_fits(network, box, shape))
        return 0;
    DecideGpuJob job = {*network, *box, *regions, network->layer[0].depth, {0}, 1, nullptr, &count};
    int64_t size = 1;
    int64_t samples = 1;
    for (int32_t k = 0; k < job.axes; ++k)
        samples *= job.shape[k] = std::min(shape[k], box->extent[k]);
    for (; samples > DECIDE_GPU_SAMPLES; samples /= 2)
        for (int32_t k = 0; k < job.axes; ++k)
            job.shape[k] = (job.shape[k] + 1) / 2;
    for (int32_t k = 0; k < job.axes; ++k) {
        job.batches *= (uint64_t)((box->extent[k] + job.shape[k] - 1) / job.shape[k]);
        size += regions->stride[k] * regions->segment[k][box->low[k] + box->extent[k] - 1];
    }
    std::vector<int32_t> planes;
    for (int32_t l = 0; l < network->layers; ++l)
        planes.push_back(fits(network->layer[l]) ? 1 : 3);
    std::vector<uint32_t> sets((size_t)size / 4 + 1);
    job.planes = planes.data();
    job.regions.regions = (uint8_t *)sets.data();
    void *const parameters[] = {&job};
    static std::mutex gpu; /* jobs run in threads */
    const std::lock_guard<std::mutex> alone(gpu);
    if (!simulated_launch(kernel, {BLOCKS, 1, 1}, {THREADS, 1, 1}, 0, parameters))
        return 0;
    for (int64_t i = 0; i < size; ++i)
        regions->regions[i] |= ((uint8_t *)sets.data())[i];
    return count;
}
