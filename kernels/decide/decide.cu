/* The decisions of decide.c on a GPU: a block of threads decides a batch of at most DECIDE_GPU_SAMPLES code vectors.
 *
 * A thread has the samples thread, thread + THREADS, ..., and keeps their values.  Threads meet to find bounds: those of
 * the accumulators from the bounds before, and the exact bounds of all samples after each layer, as decide.c has them.
 * Only outputs that vary are computed, eight at a time, from the groups of four inputs that vary.
 *
 * The host defines WIDTH and SCORES, at least the widths of all layers and of the last, multiples of 8 (not above
 * DECIDE_WIDTH and DECIDE_SCORES), and sees to the limits of decide.h.
 */
#include "device.cuh"

#ifdef __CUDACC_RTC__
using int16_t = short;
using uint16_t = unsigned short;
using uint64_t = unsigned long long;
#endif

#include "decide.h"
#include "decide_gpu.h"
#include "dot4.cuh"

enum {
    THREADS = DECIDE_GPU_THREADS,
    EACH = DECIDE_GPU_SAMPLES / THREADS, /* samples of a thread */
    GROUP = 4,
    GROUPS = WIDTH / GROUP,
    BLOCK = 8, /* outputs that are computed together */
    PLANES = 3,
    WARP = 32,
    HIGHEST_CODE = 255,
};

struct Batch {
    int32_t low[DECIDE_AXES], extent[DECIDE_AXES], samples;
    int32_t step[DECIDE_AXES];                                    /* the digits of THREADS */
    int32_t segments[DECIDE_AXES], stride[DECIDE_AXES], regions; /* those that the batch touches */
};

/* Bounds of one layer's accumulators, and the accumulators without the inputs that vary. */
struct Sums {
    int32_t offset[WIDTH], low[WIDTH], high[WIDTH];
};

struct Hull {
    int32_t low[WIDTH], high[WIDTH];
};

/* Numbers of the elements of a set, in order. */
struct List {
    uint32_t mask[(WIDTH + WARP - 1) / WARP];
    int32_t number[WIDTH], count;
};

/* Eight outputs: words of weights, one for each output, and for each plane and group of inputs. */
struct Outputs {
    uint32_t word[PLANES * GROUPS * BLOCK];
    uint32_t offset[BLOCK];
    float multiplier[BLOCK];
};

/* The code vector of a sample less the lowest of the batch: its digits, the last axis first to change. */
struct Sample {
    int32_t digit[DECIDE_AXES];
};

/* The state of a block in shared memory. */
struct Block {
    Batch batch;
    Sums sums;
    Hull hull, next;
    List outputs, groups;
    int32_t input[GROUPS * GROUP], inputs; /* the input that each byte of a group is, or -1 */
    Outputs eight;
    float least_score[SCORES], greatest_score[SCORES];
    uint32_t one;                         /* the set of all samples, or 0 */
    uint32_t seen[DECIDE_GPU_SAMPLES];    /* sets of the regions of the batch */
};

__device__ inline int32_t thread()
{
    return (int32_t)threadIdx.x;
}

__device__ inline float scaled(int32_t acc, float m)
{
    return __fmul_rn(__int2float_rn(acc), m);
}

/* min(max(round_half_even(float32(acc) * m) + zero_point, low), high); clamped before it is rounded */
__device__ inline int32_t code_of(const DecideLayer &layer, int32_t acc, float m)
{
    const float low = __int2float_rn(layer.low - layer.zero_point), high = __int2float_rn(layer.high - layer.zero_point);
    float v = scaled(acc, m);
    v = v > low ? v : low;
    v = v < high ? v : high;
    return __float2int_rn(v) + layer.zero_point;
}

/* ---- samples of a batch ---- */

/* Batch `number` of the box, the last axis first to change. */
__device__ inline void find_batch(Batch &batch, const DecideGpuJob &job, uint64_t number)
{
    int32_t threads = THREADS, regions = 1, samples = 1;
    for (int32_t k = job.axes - 1; k >= 0; --k) {
        const int32_t count = (job.box.extent[k] + job.shape[k] - 1) / job.shape[k];
        const int32_t start = (int32_t)(number % count) * job.shape[k], rest = job.box.extent[k] - start;
        number /= count;
        const int32_t extent = rest < job.shape[k] ? rest : job.shape[k], low = job.box.low[k] + start;
        const uint16_t *const segment = &job.regions.segment[k][low];
        batch.low[k] = low;
        batch.extent[k] = extent;
        batch.step[k] = threads % extent;
        threads /= extent;
        batch.segments[k] = segment[extent - 1] - segment[0] + 1;
        batch.stride[k] = regions;
        regions *= batch.segments[k];
        samples *= extent;
    }
    batch.samples = samples;
    batch.regions = regions;
}

__device__ inline Sample first_sample(const Batch &batch, int32_t axes)
{
    Sample sample;
    int32_t rest = thread();
    for (int32_t k = axes - 1; k >= 0; --k) {
        sample.digit[k] = rest % batch.extent[k];
        rest /= batch.extent[k];
    }
    return sample;
}

/* THREADS samples further on. */
__device__ inline void move_on(Sample &sample, const Batch &batch, int32_t axes)
{
    int32_t carry = 0;
    for (int32_t k = axes - 1; k >= 0; --k) {
        const int32_t digit = sample.digit[k] + batch.step[k] + carry;
        carry = digit >= batch.extent[k];
        sample.digit[k] = carry ? digit - batch.extent[k] : digit;
    }
}

/* The digits of sample i; those of the last sample if there is no such sample. */
__device__ inline Sample or_last(const Sample &sample, const Batch &batch, int32_t axes, int32_t i)
{
    Sample found = sample;
    for (int32_t k = 0; i >= batch.samples && k < axes; ++k)
        found.digit[k] = batch.extent[k] - 1;
    return found;
}

/* ---- bounds ---- */

/* Numbers of the set bits, found by all threads; bits were set before a barrier. */
__device__ inline void list_set_bits(List &list, int32_t size)
{
    for (int32_t n = thread(); n < size; n += THREADS) {
        const uint32_t word = list.mask[n / WARP], below = word & ((1u << (n % WARP)) - 1);
        int32_t place = __popc(below);
        for (int32_t i = 0; i < n / WARP; ++i)
            place += __popc(list.mask[i]);
        if (word >> (n % WARP) & 1)
            list.number[place] = n;
        if (n == size - 1)
            list.count = place + (int32_t)(word >> (n % WARP) & 1);
    }
    __syncthreads();
}

__device__ inline void clear_bits(List &list)
{
    for (int32_t i = thread(); i < (int32_t)(sizeof list.mask / sizeof *list.mask); i += THREADS)
        list.mask[i] = 0;
}

/* start: accumulators at inputs 0 are layer.offset, and with the lowest codes of the batch added if it is not null. */
__device__ inline void bound_sums(Block &block, const DecideLayer &layer, const Batch *start)
{
    Sums &sums = block.sums;
    for (int32_t n = thread(); n < layer.width; n += THREADS)
        sums.offset[n] = sums.low[n] = sums.high[n] = 0;
    __syncthreads();
    const int32_t parts = layer.padded < THREADS ? THREADS / layer.padded : 1;
    for (int32_t i = thread(); i < parts * layer.padded; i += THREADS) {
        const int32_t n = i % layer.padded, part = i / layer.padded;
        if (n >= layer.width)
            continue;
        int32_t offset = part ? 0 : layer.offset[n], low = 0, high = 0;
        for (int32_t k = part; k < layer.depth; k += parts) {
            const int32_t w = layer.weights[k * layer.padded + n], least = block.hull.low[k];
            const int32_t range = w * (block.hull.high[k] - least), fixed = w * least;
            if (start)
                offset += w * start->low[k];
            if (range == 0)
                offset += fixed;
            else {
                low += fixed + (range < 0 ? range : 0);
                high += fixed + (range > 0 ? range : 0);
            }
        }
        atomicAdd(&sums.offset[n], offset);
        atomicAdd(&sums.low[n], low + offset);
        atomicAdd(&sums.high[n], high + offset);
    }
    __syncthreads();
}

/* The codes within the bounds of the sums, and the outputs that vary. */
__device__ inline void bound_codes(Block &block, const DecideLayer &layer)
{
    clear_bits(block.outputs);
    __syncthreads();
    for (int32_t n = thread(); n < layer.width; n += THREADS) {
        const int32_t low = code_of(layer, block.sums.low[n], layer.multiplier[n]);
        const int32_t high = code_of(layer, block.sums.high[n], layer.multiplier[n]);
        const int varies = low != high;
        block.next.low[n] = varies ? HIGHEST_CODE : low; /* where it varies, the samples tell */
        block.next.high[n] = varies ? 0 : high;
        if (varies)
            atomicOr(&block.outputs.mask[n / WARP], 1u << (n % WARP));
    }
    __syncthreads();
    list_set_bits(block.outputs, layer.width);
}

/* ---- scores ---- */

__device__ inline float score_of(const DecideNetwork &network, const DecideLayer &last, int32_t acc, float m)
{
    return network.float_scores ? scaled(acc, m) : __int2float_rn(code_of(last, acc, m));
}

__device__ inline bool is_above(const DecideRule &rule, float a, float b)
{
    return rule.greatest ? a > b : a < b;
}

__device__ inline uint32_t set_of_best(const DecideRule &rule, int32_t count, const float *scores)
{
    uint32_t set = 1;
    float best = scores[0];
    for (int32_t n = 1; n < count; ++n) {
        const bool level = scores[n] == best, above = is_above(rule, scores[n], best);
        if (above || (level && rule.ties == DECIDE_LAST))
            set = 0;
        if (above || (level && rule.ties != DECIDE_FIRST))
            set |= 1u << n;
        best = above ? scores[n] : best;
    }
    return set;
}

__device__ inline uint32_t set_that_holds(const DecideRule &rule, const float *scores)
{
    uint32_t missed = 0;
    for (int32_t i = 0; i < rule.comparisons; ++i) {
        const DecideComparison &c = rule.comparison[i];
        const float left = scores[c.left], right = c.right < 0 ? c.constant : scores[c.right];
        const bool holds = c.strict ? left > right : left >= right;
        if (holds == (c.negated != 0))
            missed |= 1u << c.decision;
    }
    const uint32_t none = 1u << rule.decisions, set = ~missed & (none - 1);
    return set ? set : none;
}

/* The set if it is the same for all scores within bounds, otherwise 0; `low` of a score is the worse end. */
__device__ inline uint32_t best_within(const DecideRule &rule, int32_t count, const float *low, const float *high)
{
    for (int32_t n = 0; n < count; ++n) {
        int32_t i = 0;
        const float worst = rule.greatest ? low[n] : high[n];
        for (; i < count; ++i) {
            const float other = rule.greatest ? high[i] : low[i];
            const bool strict = rule.ties == DECIDE_ALL || (rule.ties == DECIDE_FIRST ? i < n : i > n);
            if (i != n && !(is_above(rule, worst, other) || (!strict && worst == other)))
                break;
        }
        if (i == count)
            return 1u << n;
    }
    return 0;
}

__device__ inline uint32_t held_within(const DecideRule &rule, const float *low, const float *high)
{
    uint32_t missed = 0, open = 0;
    for (int32_t i = 0; i < rule.comparisons; ++i) {
        const DecideComparison &c = rule.comparison[i];
        const float least = c.right < 0 ? c.constant : low[c.right], greatest = c.right < 0 ? c.constant : high[c.right];
        const bool always = c.strict ? low[c.left] > greatest : low[c.left] >= greatest;
        const bool sometimes = c.strict ? high[c.left] > least : high[c.left] >= least;
        if (c.negated ? always : !sometimes)
            missed |= 1u << c.decision;
        else if (always != sometimes)
            open |= 1u << c.decision;
    }
    const uint32_t none = 1u << rule.decisions, set = ~missed & (none - 1);
    return open & ~missed ? 0 : set ? set : none;
}

/* ---- one layer, every sample ---- */

/* Stages outputs list[first ... first + 7]; there may be fewer.
 * A plane holds int8: w = half + half + rest, half = floor(w / 2), if w does not fit. */
__device__ inline void stage_outputs(Block &block, const DecideLayer &layer, int32_t planes, const int32_t *list,
                                     int32_t count)
{
    const int32_t groups = block.inputs / GROUP;
    for (int32_t i = thread(); i < planes * groups * BLOCK; i += THREADS) {
        const int32_t j = i % BLOCK, row = i / BLOCK, plane = row / groups, group = row % groups;
        const bool rest = planes > 1 && plane == planes - 1, half = planes > 1 && !rest;
        uint32_t word = 0;
        for (int32_t b = 0; b < GROUP && j < count; ++b) {
            const int32_t k = block.input[group * GROUP + b];
            if (k < 0 || block.hull.low[k] == block.hull.high[k])
                continue;
            const int32_t w = layer.weights[k * layer.padded + list[j]];
            word |= ((uint32_t)(half ? w >> 1 : w) & (rest ? 1u : 255u)) << (8 * b);
        }
        block.eight.word[i] = word;
    }
    for (int32_t j = thread(); j < BLOCK; j += THREADS) {
        block.eight.offset[j] = j < count ? (uint32_t)block.sums.offset[list[j]] : 0;
        block.eight.multiplier[j] = j < count ? layer.multiplier[list[j]] : 0;
    }
    __syncthreads();
}

__device__ inline void accumulate(const Block &block, int32_t planes, const uint32_t *values, uint32_t *acc)
{
    const int32_t groups = block.inputs / GROUP;
    for (int32_t j = 0; j < BLOCK; ++j)
        acc[j] = block.eight.offset[j];
    const uint32_t *word = block.eight.word;
    for (int32_t p = 0; p < planes; ++p)
        for (int32_t g = 0; g < groups; ++g, word += BLOCK) {
            const uint32_t a = values[block.groups.number[g]];
            for (int32_t j = 0; j < BLOCK; ++j)
                acc[j] = dot4<uint8_t, int8_t>(a, word[j], acc[j]);
        }
}

/* Least and greatest codes of eight outputs in a thread, and then in all threads. */
struct Range {
    uint32_t beyond[2], greatest[2]; /* 255 less the least code, and the greatest code: four to a word */
};

__device__ inline void widen(Range &range, const uint32_t *codes)
{
    for (int32_t i = 0; i < 2; ++i) {
        range.beyond[i] = __vmaxu4(range.beyond[i], ~codes[i]);
        range.greatest[i] = __vmaxu4(range.greatest[i], codes[i]);
    }
}

__device__ inline void share_range(Block &block, Range range, const int32_t *list, int32_t count)
{
    for (int32_t distance = WARP / 2; distance; distance /= 2)
        for (int32_t i = 0; i < 2; ++i) {
            range.beyond[i] = __vmaxu4(range.beyond[i], __shfl_xor_sync(0xffffffffu, range.beyond[i], distance));
            range.greatest[i] = __vmaxu4(range.greatest[i], __shfl_xor_sync(0xffffffffu, range.greatest[i], distance));
        }
    for (int32_t j = 0; j < count && thread() % WARP == 0; ++j) {
        const int32_t shift = 8 * (j % GROUP);
        atomicMin(&block.next.low[list[j]], (int32_t)(~range.beyond[j / GROUP] >> shift & 255));
        atomicMax(&block.next.high[list[j]], (int32_t)(range.greatest[j / GROUP] >> shift & 255));
    }
}

/* The groups of outputs that vary become the groups of inputs. */
__device__ inline void take_as_inputs(Block &block, const DecideLayer &layer)
{
    const int32_t count = block.outputs.count;
    clear_bits(block.groups);
    for (int32_t n = thread(); n < layer.width; n += THREADS) {
        block.hull.low[n] = block.next.low[n];
        block.hull.high[n] = block.next.high[n];
    }
    __syncthreads();
    for (int32_t i = thread(); i < count; i += THREADS) {
        const int32_t n = block.outputs.number[i], group = i / GROUP;
        if (block.hull.low[n] != block.hull.high[n])
            atomicOr(&block.groups.mask[group / WARP], 1u << (group % WARP));
    }
    __syncthreads();
    list_set_bits(block.groups, (WIDTH + GROUP - 1) / GROUP);
    for (int32_t i = thread(); i < block.groups.count * GROUP; i += THREADS) {
        const int32_t at = block.groups.number[i / GROUP] * GROUP + i % GROUP;
        block.input[i] = at < count ? block.outputs.number[at] : -1;
    }
    if (thread() == 0)
        block.inputs = block.groups.count * GROUP;
    __syncthreads();
}

/* (EACH, GROUPS) values of a thread's samples, four codes to a word */
typedef uint32_t Values[EACH][GROUPS];

__device__ inline void compute_layer(Block &block, const DecideLayer &layer, int32_t planes, const Values &in,
                                     Values &out)
{
    bound_codes(block, layer);
    for (int32_t first = 0; first < block.outputs.count; first += BLOCK) {
        const int32_t rest = block.outputs.count - first, count = rest < BLOCK ? rest : BLOCK;
        const int32_t *const list = &block.outputs.number[first];
        stage_outputs(block, layer, planes, list, count);
        Range range = {{0, 0}, {0, 0}};
        for (int32_t s = 0; s * THREADS < block.batch.samples; ++s) {
            uint32_t acc[BLOCK], codes[2] = {0, 0};
            accumulate(block, planes, in[s], acc);
            for (int32_t j = 0; j < BLOCK; ++j)
                codes[j / GROUP] |= (uint32_t)code_of(layer, (int32_t)acc[j], block.eight.multiplier[j])
                                    << (8 * (j % GROUP));
            out[s][first / GROUP] = codes[0];
            out[s][first / GROUP + 1] = codes[1];
            widen(range, codes);
        }
        share_range(block, range, list, count);
        __syncthreads();
    }
    take_as_inputs(block, layer);
}

/* ---- one batch ---- */

/* The axes that vary are the inputs. */
__device__ inline void take_axes(Block &block, const DecideGpuJob &job, Values &values)
{
    const Batch &batch = block.batch;
    if (thread() == 0) {
        int32_t used = 0;
        for (int32_t k = 0; k < job.axes; ++k) {
            block.hull.low[k] = 0;
            block.hull.high[k] = batch.extent[k] - 1;
            if (batch.extent[k] > 1)
                block.input[used++] = k;
        }
        while (used % GROUP)
            block.input[used++] = -1;
        block.inputs = used;
        for (int32_t g = 0; g < used / GROUP; ++g)
            block.groups.number[g] = g;
    }
    __syncthreads();
    Sample sample = first_sample(batch, job.axes);
    for (int32_t s = 0; s * THREADS < batch.samples; ++s) {
        const Sample own = or_last(sample, batch, job.axes, s * THREADS + thread());
        for (int32_t g = 0; g < block.inputs / GROUP; ++g)
            values[s][g] = 0;
        for (int32_t i = 0; i < block.inputs; ++i)
            if (block.input[i] >= 0)
                values[s][i / GROUP] |= (uint32_t)own.digit[block.input[i]] << (8 * (i % GROUP));
        move_on(sample, batch, job.axes);
    }
}

/* block.one becomes the set of all samples if bounds show it, otherwise 0. */
__device__ inline void decide_sums(Block &block, const DecideNetwork &network, const DecideLayer &last)
{
    for (int32_t n = thread(); n < last.width; n += THREADS) {
        block.least_score[n] = score_of(network, last, block.sums.low[n], last.multiplier[n]);
        block.greatest_score[n] = score_of(network, last, block.sums.high[n], last.multiplier[n]);
    }
    __syncthreads();
    if (thread() == 0)
        block.one = network.rule.comparisons
                        ? held_within(network.rule, block.least_score, block.greatest_score)
                        : best_within(network.rule, last.width, block.least_score, block.greatest_score);
    __syncthreads();
}

/* Reads a word that other threads change by atomic operations. */
__device__ inline uint32_t read(const uint32_t *word)
{
#ifdef __CUDACC_RTC__
    return *(const volatile uint32_t *)word;
#else
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

__device__ inline void see(Block &block, const DecideGpuJob &job, const Sample &sample, uint32_t set)
{
    int32_t region = 0;
    for (int32_t k = 0; k < job.axes; ++k) {
        const uint16_t *const segment = &job.regions.segment[k][block.batch.low[k]];
        region += (segment[sample.digit[k]] - segment[0]) * block.batch.stride[k];
    }
    if (set & ~read(&block.seen[region])) /* atomic operations on one word take turns */
        atomicOr(&block.seen[region], set);
}

/* The sets of all samples. */
__device__ inline void compute_sets(Block &block, const DecideGpuJob &job, const DecideLayer &last, int32_t planes,
                                    const Values &in)
{
    const DecideRule &rule = job.network.rule;
    float scores[EACH][SCORES];
    for (int32_t first = 0; first < last.width; first += BLOCK) {
        const int32_t rest = last.width - first, count = rest < BLOCK ? rest : BLOCK;
        int32_t list[BLOCK];
        for (int32_t j = 0; j < BLOCK; ++j)
            list[j] = first + j;
        stage_outputs(block, last, planes, list, count);
        for (int32_t s = 0; s * THREADS < block.batch.samples; ++s) {
            uint32_t acc[BLOCK];
            accumulate(block, planes, in[s], acc);
            for (int32_t j = 0; j < BLOCK; ++j)
                scores[s][first + j] = score_of(job.network, last, (int32_t)acc[j], block.eight.multiplier[j]);
        }
        __syncthreads();
    }
    Sample sample = first_sample(block.batch, job.axes);
    for (int32_t s = 0; s * THREADS < block.batch.samples; ++s) {
        const uint32_t set = rule.comparisons ? set_that_holds(rule, scores[s])
                                              : set_of_best(rule, last.width, scores[s]);
        see(block, job, or_last(sample, block.batch, job.axes, s * THREADS + thread()), set);
        move_on(sample, block.batch, job.axes);
    }
    __syncthreads();
}

/* Adds the sets of the batch to the regions of the job. */
__device__ inline void credit(const Block &block, const DecideGpuJob &job)
{
    for (int32_t i = thread(); i < block.batch.regions; i += THREADS) {
        int64_t region = 0;
        for (int32_t k = 0; k < job.axes; ++k) {
            const int32_t first = job.regions.segment[k][block.batch.low[k]];
            region += job.regions.stride[k] * (first + i / block.batch.stride[k] % block.batch.segments[k]);
        }
        const uint32_t set = block.one ? block.one : block.seen[i];
        atomicOr((uint32_t *)&job.regions.regions[region / 4 * 4], set << (8 * (region % 4)));
    }
}

__device__ inline void decide_batch(Block &block, const DecideGpuJob &job, uint64_t number)
{
    const int32_t layers = job.network.layers;
    const Batch &batch = block.batch;
    Values values[2];
    if (thread() == 0)
        find_batch(block.batch, job, number);
    __syncthreads();
    for (int32_t i = thread(); i < batch.regions; i += THREADS)
        block.seen[i] = 0;
    take_axes(block, job, values[0]);
    for (int32_t l = 0; l < layers - 1; ++l) {
        bound_sums(block, job.network.layer[l], l ? nullptr : &batch);
        compute_layer(block, job.network.layer[l], job.planes[l], values[l & 1], values[1 - (l & 1)]);
    }
    const DecideLayer &last = job.network.layer[layers - 1];
    bound_sums(block, last, layers > 1 ? nullptr : &batch);
    decide_sums(block, job.network, last);
    if (!block.one)
        compute_sets(block, job, last, job.planes[layers - 1], values[(layers - 1) & 1]);
    credit(block, job);
    if (thread() == 0)
        atomicAdd(job.count, (unsigned long long)batch.samples);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) decide_batches(DecideGpuJob job)
{
    __shared__ Block block;
    for (uint64_t number = blockIdx.x; number < job.batches; number += gridDim.x)
        decide_batch(block, job, number);
}
