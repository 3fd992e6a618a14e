/* Decisions of all code vectors of a box, in batches: sub-boxes of at most DECIDE_SAMPLES code vectors.
 *
 * For each batch and layer, inputs a[k] within low[k] .. high[k]:
 *
 *     offset[n]   += sum of a[k] * weights[k][n] over constant inputs, low[k] = high[k]
 *     acc_low[n]   = offset[n] + sum_k min(low[k] * weights[k][n], high[k] * weights[k][n])     acc_high with max
 *     y[n] is constant where the codes of acc_low[n] and acc_high[n] are equal: rounding is monotone
 *
 * The other outputs are computed for every sample of the batch, and their least and greatest codes are the bounds of the
 * next layer.  These bounds are exact, so that they stay close over many layers; bounds computed from bounds do not.
 * Where bounds alone give one set of decisions, the batch has that set and the rest is not computed.
 */
#include "decide.h"

#include <stdlib.h>

#include "lanes.h"
#include "rule.h"

#define INLINE static inline __attribute__((always_inline))

enum { GROUPS = DECIDE_WIDTH / GROUP, PLANES = 3, FEW = 8, ALIGNMENT = 64, DECISIONS = 8, CODES = 256 };

typedef struct {
    int32_t low[DECIDE_AXES], extent[DECIDE_AXES], samples;
} Batch;

/* Bounds of one layer's accumulators, and the accumulators without the inputs that vary. */
typedef struct {
    int32_t offset[DECIDE_WIDTH], low[DECIDE_WIDTH], high[DECIDE_WIDTH];
} Sums;

typedef struct {
    uint8_t low[DECIDE_WIDTH], high[DECIDE_WIDTH];
} Hull;

/* Inputs that vary: their groups, and which input each byte of a group is. */
typedef struct {
    int32_t groups, input[DECIDE_WIDTH];
    const uint8_t *group[GROUPS]; /* (vectors, LANES, GROUP) each */
} Inputs;

/* Four outputs of a layer; words: (planes * groups, GROUP) */
typedef struct {
    int32_t vectors, words[PLANES * GROUPS * GROUP], offset[GROUP];
    float multiplier[GROUP];
    uint8_t least[GROUP], greatest[GROUP];
} Four;

typedef struct {
    const DecideNetwork *network;
    int32_t axes, capacity;                /* samples of the largest batch, whole vectors */
    int32_t planes[DECIDE_LAYERS];         /* 1 if the weights fit int8 */
    int32_t plain[DECIDE_LAYERS];          /* lanes.h's requantize gives the codes */
    int32_t trust[DECIDE_LAYERS], batches; /* whether bounds after this layer decided lately */
    int32_t template_extent[DECIDE_AXES];
    uint8_t *template, *values[2], *sets;
    Sums sums, further;
    Hull hull, next[2];
    Inputs inputs;
    Four four[DECIDE_SCORES / GROUP];
} Work;

const char *decide_kernel(void)
{
    return DECIDE_KERNEL;
}

/* ---- bounds ---- */

/* start: accumulators at inputs 0.  With q = weights[k][n] * (high[k] - low[k]), acc_low is the sum of all low[k] *
 * weights[k][n] and of all negative q, and acc_high that of all positive q. */
static void bound_sums(const DecideLayer *layer, const int32_t *start, const Hull *hull, Sums *sums)
{
    const int16_t *row[DECIDE_WIDTH]; /* of the inputs that vary */
    int32_t low[DECIDE_WIDTH], range[DECIDE_WIDTH], rows = 0;
    memcpy(sums->offset, start, sizeof *start * (size_t)layer->padded);
    for (int32_t k = 0; k < layer->depth; ++k) {
        row[rows] = &layer->weights[k * layer->padded];
        low[rows] = hull->low[k];
        range[rows] = hull->high[k] - hull->low[k];
        if (range[rows])
            ++rows;
        else if (low[rows])
            for (int32_t n = 0; n < layer->padded; ++n)
                sums->offset[n] += row[rows][n] * low[rows];
    }
    for (int32_t n = 0; n < layer->width; n += LANES) {
        Integers least_acc = load_integers(&sums->offset[n]), negative = same(0), total = same(0);
        for (int32_t r = 0; r < rows; ++r) {
            const Integers w = load_shorts(&row[r][n]), q = w * range[r];
            total += q;
            negative += q & (q >> 31);
            if (low[r])
                least_acc += w * low[r];
        }
        store_integers(&sums->low[n], least_acc + negative);
        store_integers(&sums->high[n], least_acc + total - negative);
    }
}

static void bound_codes(const DecideLayer *layer, const Sums *sums, Hull *codes)
{
    const float low = (float)(layer->low - layer->zero_point), high = (float)(layer->high - layer->zero_point);
    for (int32_t n = 0; n < layer->width; n += LANES) {
        const Floats m = load_floats(&layer->multiplier[n]);
        store_bytes(&codes->low[n], round_clamped(scaled(load_integers(&sums->low[n]), m), low, high) + layer->zero_point);
        store_bytes(&codes->high[n], round_clamped(scaled(load_integers(&sums->high[n]), m), low, high) + layer->zero_point);
    }
}

/* The set of decisions if it is the same for all accumulators of the last layer within bounds, otherwise 0. */
static uint8_t decide_sums(const DecideNetwork *network, const Sums *sums)
{
    const DecideLayer *last = &network->layer[network->layers - 1];
    const DecideRule *rule = &network->rule;
    float low[DECIDE_SCORES], high[DECIDE_SCORES];
    for (int32_t n = 0; n < last->width; n += LANES) {
        const Floats m = load_floats(&last->multiplier[n]);
        Floats first = compared_scores(network, load_integers(&sums->low[n]), m);
        Floats second = compared_scores(network, load_integers(&sums->high[n]), m);
        const int upwards = rule->comparisons || rule->greatest; /* otherwise scores are negated */
        memcpy(&low[n], upwards ? &first : &second, sizeof first);
        memcpy(&high[n], upwards ? &second : &first, sizeof first);
    }
    return rule->comparisons ? comparisons_within(rule, low, high) : best_within(rule, last->width, low, high);
}

/* Bounds from bounds, from layer `first` to the last. */
static uint8_t decide_hull(Work *work, int32_t first, const Hull *hull)
{
    const DecideNetwork *network = work->network;
    for (int32_t l = first; l < network->layers; ++l) {
        bound_sums(&network->layer[l], network->layer[l].offset, hull, &work->further);
        if (l == network->layers - 1)
            break;
        bound_codes(&network->layer[l], &work->further, &work->next[l & 1]);
        hull = &work->next[l & 1];
    }
    return decide_sums(network, &work->further);
}

/* decide_hull where it decided lately, and in every 16th batch. */
static uint8_t decide_early(Work *work, int32_t first, const Hull *hull)
{
    enum { GAIN = 4, GREATEST = 16 };
    int32_t *trust = &work->trust[first];
    if (*trust <= 0 && work->batches % 16)
        return 0;
    const uint8_t set = decide_hull(work, first, hull);
    *trust += set ? GAIN : -1;
    *trust = *trust < 0 ? 0 : *trust > GREATEST ? GREATEST : *trust;
    return set;
}

/* ---- one layer, every sample ---- */

/* The rows of the weights for each byte of the groups; zeros for bytes without an input, and for constants. */
static void pick_rows(const DecideLayer *layer, const Hull *hull, const Inputs *inputs, const int16_t **row)
{
    static const int16_t zeros[DECIDE_WIDTH];
    for (int32_t j = 0; j < inputs->groups * GROUP; ++j) {
        const int32_t k = inputs->input[j];
        row[j] = k < 0 || hull->low[k] == hull->high[k] ? zeros : &layer->weights[k * layer->padded];
    }
}

/* Outputs output[0 .. 3]; -1: none.
 * A plane holds int8: w = half + half + rest, half = floor(w / 2), if w does not fit. */
static void pick_four(const DecideLayer *layer, const Sums *sums, const int16_t *const *row, int32_t groups,
                      int32_t planes, const int32_t output[GROUP], Four *four)
{
    for (int32_t i = 0; i < GROUP; ++i) {
        const int32_t n = output[i] < 0 ? output[0] : output[i];
        uint32_t offset = (uint32_t)sums->offset[n];
        for (int32_t r = 0; r < planes * groups; ++r) {
            const int16_t *const *of = &row[planes > 1 ? r % groups * GROUP : r * GROUP];
            const int32_t rest = planes > 1 && r >= (planes - 1) * groups, half = planes > 1 && !rest;
            const uint32_t mask = rest ? 1 : 255;
            uint32_t word = 0;
            for (int32_t j = 0; j < GROUP; ++j)
                word |= ((uint32_t)(of[j][n] >> half) & mask) << (8 * j);
            for (int32_t j = 0; j < GROUP && SHIFT; ++j)
                offset += (uint32_t)(SHIFT * (int8_t)(word >> (8 * j)));
            four->words[r * GROUP + i] = (int32_t)word;
        }
        four->offset[i] = (int32_t)offset;
        four->multiplier[i] = layer->multiplier[n];
    }
}

/* acc[t * GROUP + i]: output i of the vector at + t.  ready: the weights, in registers where there is room; or NULL. */
INLINE void accumulate(const Inputs *inputs, const Four *four, int32_t groups, int32_t planes, int32_t at,
                       const Weights *ready, Integers acc[TOGETHER * GROUP])
{
    for (int32_t r = 0; r < planes * groups; ++r) {
        Factor a[TOGETHER];
        for (int32_t t = 0; t < TOGETHER; ++t)
            a[t] = factor(load_group(&inputs->group[planes > 1 ? r % groups : r][(size_t)(at + t) * GROUP_BYTES]));
        for (int32_t i = 0; i < GROUP; ++i) {
            const Weights w = ready ? ready[r * GROUP + i] : weights(four->words[r * GROUP + i]);
            for (int32_t t = 0; t < TOGETHER; ++t)
                acc[t * GROUP + i] = dot(acc[t * GROUP + i], a[t], w);
        }
    }
}

INLINE void compute_four(const DecideLayer *layer, const Inputs *inputs, Four *four, uint8_t *restrict to, int32_t groups,
                         int32_t planes, int plain, int few)
{
    const float low = (float)(layer->low - layer->zero_point), high = (float)(layer->high - layer->zero_point);
    Group minimum = (Group)same(-1), maximum = (Group)same(0);
    const int32_t vectors = four->vectors;
    Floats m[GROUP];
    Integers offset[GROUP];
    Weights ready[FEW * GROUP];
    for (int32_t i = 0; i < GROUP; ++i) {
        m[i] = same_float(four->multiplier[i]);
        offset[i] = same(four->offset[i] + (plain ? START : 0));
    }
    for (int32_t i = 0; few && i < groups * GROUP; ++i)
        ready[i] = weights(four->words[i]);
    for (int32_t at = 0; at < vectors; at += TOGETHER) {
        Integers acc[TOGETHER * GROUP];
        for (int32_t i = 0; i < TOGETHER * GROUP; ++i)
            acc[i] = offset[i % GROUP];
        accumulate(inputs, four, groups, planes, at, few ? ready : NULL, acc);
        for (int32_t t = 0; t < TOGETHER; ++t) {
            Group codes;
            if (plain)
                codes = requantize(&acc[t * GROUP], m);
            else {
                Integers words = same(0);
                for (int32_t i = 0; i < GROUP; ++i)
                    words |= (round_clamped(scaled(acc[t * GROUP + i], m[i]), low, high) + layer->zero_point) << (8 * i);
                codes = (Group)words;
            }
            store_group(&to[(size_t)(at + t) * GROUP_BYTES], codes);
            minimum = least(minimum, codes);
            maximum = greatest(maximum, codes);
        }
    }
    const uint32_t lows = least_of_lanes(minimum), highs = ~least_of_lanes(~maximum);
    memcpy(four->least, &lows, GROUP);
    memcpy(four->greatest, &highs, GROUP);
}

/* compute_four, compiled for each usual number of groups. */
static void compute_outputs(const DecideLayer *layer, const Inputs *inputs, Four *four, uint8_t *to, int32_t planes,
                            int plain)
{
#define CASE(GROUPS_)                                                 \
    case GROUPS_:                                                     \
        compute_four(layer, inputs, four, to, GROUPS_, 1, 1, 1);      \
        return;
    switch (plain && planes == 1 ? inputs->groups : 0) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
    default:
        if (plain && planes == 1)
            compute_four(layer, inputs, four, to, inputs->groups, 1, 1, 0);
        else
            compute_four(layer, inputs, four, to, inputs->groups, planes, plain, 0);
    }
#undef CASE
}

/* All samples after layer l: the outputs that vary replace the inputs, and the exact bounds of all outputs the hull. */
static void compute_layer(Work *work, int32_t l, int32_t vectors)
{
    const DecideLayer *layer = &work->network->layer[l];
    Inputs *inputs = &work->inputs;
    Hull *codes = &work->next[0];
    const int16_t *row[DECIDE_WIDTH];
    int32_t output[DECIDE_WIDTH + GROUP], outputs = 0;
    bound_codes(layer, &work->sums, codes);
    for (int32_t n = 0; n < layer->width; ++n) {
        output[outputs] = n;
        outputs += codes->low[n] != codes->high[n];
    }
    for (int32_t i = 0; i < GROUP; ++i)
        output[outputs + i] = -1;
    pick_rows(layer, &work->hull, inputs, row);
    const size_t bytes = (size_t)vectors * GROUP_BYTES;
    for (int32_t j = 0; j < outputs; j += GROUP) {
        Four *four = work->four;
        four->vectors = vectors;
        pick_four(layer, &work->sums, row, inputs->groups, work->planes[l], &output[j], four);
        compute_outputs(layer, inputs, four, &work->values[l & 1][(size_t)(j / GROUP) * bytes], work->planes[l],
                        work->plain[l]);
        for (int32_t i = 0; i < GROUP && output[j + i] >= 0; ++i) {
            codes->low[output[j + i]] = four->least[i];
            codes->high[output[j + i]] = four->greatest[i];
        }
    }
    memcpy(&work->hull, codes, sizeof *codes);
    inputs->groups = 0;
    for (int32_t j = 0; j < outputs; j += GROUP) { /* without groups of constants */
        int varies = 0;
        for (int32_t i = 0; i < GROUP && output[j + i] >= 0; ++i)
            varies |= codes->low[output[j + i]] != codes->high[output[j + i]];
        if (!varies)
            continue;
        inputs->group[inputs->groups] = &work->values[l & 1][(size_t)(j / GROUP) * bytes];
        memcpy(&inputs->input[GROUP * inputs->groups++], &output[j], sizeof *output * GROUP);
    }
}

/* The sets of all samples; returns it if all samples have the same, otherwise 0.
 * usual: the index of the greatest float score, or of the least by negative multipliers, and of equal ones the first. */
INLINE uint8_t compute_sets(Work *work, int32_t vectors, int32_t groups, int32_t planes, int usual)
{
    const DecideNetwork *network = work->network;
    const DecideRule *rule = &network->rule;
    const int32_t width = network->layer[network->layers - 1].width;
    Floats scores[TOGETHER][DECIDE_SCORES];
    Integers some = same(0), all = same(-1);
    for (int32_t at = 0; at < vectors; at += TOGETHER) {
        for (int32_t n = 0; n < width; n += GROUP) {
            const Four *four = &work->four[n / GROUP];
            Integers acc[TOGETHER * GROUP];
            for (int32_t i = 0; i < TOGETHER * GROUP; ++i)
                acc[i] = same(four->offset[i % GROUP]);
            accumulate(&work->inputs, four, groups, planes, at, NULL, acc);
            for (int32_t i = 0; i < TOGETHER * GROUP; ++i) {
                const Floats m = same_float(four->multiplier[i % GROUP]);
                scores[i / GROUP][n + i % GROUP] = usual ? scaled(acc[i], m) : compared_scores(network, acc[i], m);
            }
        }
        for (int32_t t = 0; t < TOGETHER; ++t) {
            const Integers sets = usual               ? best_sets(DECIDE_FIRST, width, scores[t])
                                  : rule->comparisons ? sets_of_comparisons(rule, scores[t])
                                                      : best_sets(rule->ties, width, scores[t]);
            some |= sets;
            all &= sets;
            store_bytes(&work->sets[(at + t) * LANES], sets);
        }
    }
    uint8_t seen = 0, common = 255;
    for (int32_t lane = 0; lane < LANES; ++lane) {
        seen |= (uint8_t)some[lane];
        common &= (uint8_t)all[lane];
    }
    return seen == common ? seen : 0;
}

/* compute_sets, compiled for usual rules and numbers of groups. */
static uint8_t compute_last(Work *work, int32_t vectors)
{
    const DecideNetwork *network = work->network;
    const DecideLayer *last = &network->layer[network->layers - 1];
    const DecideRule *rule = &network->rule;
    const int32_t planes = work->planes[network->layers - 1], groups = work->inputs.groups;
    const int usual = network->float_scores && !rule->comparisons && rule->ties == DECIDE_FIRST && planes == 1;
    const int16_t *row[DECIDE_WIDTH];
    pick_rows(last, &work->hull, &work->inputs, row);
    for (int32_t n = 0; n < last->width; n += GROUP) {
        const int32_t output[GROUP] = {n, n + 1, n + 2, n + 3}; /* up to 3 beyond the width: padding */
        Four *four = &work->four[n / GROUP];
        pick_four(last, &work->sums, row, groups, planes, output, four);
        for (int32_t i = 0; i < GROUP && usual && !rule->greatest; ++i)
            four->multiplier[i] = -four->multiplier[i];
    }
    switch (usual ? groups : 0) {
    case 1:
        return compute_sets(work, vectors, 1, 1, 1);
    case 2:
        return compute_sets(work, vectors, 2, 1, 1);
    case 3:
        return compute_sets(work, vectors, 3, 1, 1);
    case 4:
        return compute_sets(work, vectors, 4, 1, 1);
    default:
        return usual ? compute_sets(work, vectors, groups, 1, 1) : compute_sets(work, vectors, groups, planes, 0);
    }
}

/* ---- one batch ---- */

/* The samples of a batch as codes less the lowest, the last axis first to change; the last sample fills the last vector. */
static void fill_template(Work *work, const Batch *batch, int32_t vectors)
{
    Inputs *inputs = &work->inputs;
    int32_t used = 0;
    for (int32_t k = 0; k < work->axes; ++k)
        if (batch->extent[k] > 1)
            inputs->input[used++] = k;
    inputs->groups = (used + GROUP - 1) / GROUP;
    for (int32_t j = used; j < inputs->groups * GROUP; ++j)
        inputs->input[j] = -1;
    for (int32_t g = 0; g < inputs->groups; ++g)
        inputs->group[g] = &work->template[(size_t)g * (size_t)vectors * GROUP_BYTES];
    if (!memcmp(work->template_extent, batch->extent, sizeof batch->extent))
        return;
    memcpy(work->template_extent, batch->extent, sizeof batch->extent);
    uint8_t at[DECIDE_AXES] = {0};
    for (int32_t s = 0; s < vectors * LANES; ++s) {
        for (int32_t j = 0; j < inputs->groups * GROUP; ++j)
            work->template[((size_t)(j / GROUP) * (size_t)(vectors * LANES) + (size_t)s) * GROUP + (size_t)(j % GROUP)] =
                j < used ? at[inputs->input[j]] : 0;
        if (s < batch->samples - 1)
            for (int32_t k = work->axes - 1; k >= 0 && ++at[k] == batch->extent[k]; --k)
                at[k] = 0;
    }
}

/* The set of decisions of all samples if it is one; otherwise 0, and work->sets has the sets, in the order of the template. */
static uint8_t decide_batch(Work *work, const Batch *batch)
{
    const DecideNetwork *network = work->network;
    const int32_t unit = LANES * TOGETHER, vectors = (batch->samples + unit - 1) / unit * TOGETHER;
    int32_t start[DECIDE_WIDTH];
    memcpy(start, network->layer[0].offset, sizeof *start * (size_t)network->layer[0].padded);
    for (int32_t k = 0; k < work->axes; ++k) {
        for (int32_t n = 0; n < network->layer[0].padded; ++n)
            start[n] += network->layer[0].weights[k * network->layer[0].padded + n] * batch->low[k];
        work->hull.low[k] = 0;
        work->hull.high[k] = (uint8_t)(batch->extent[k] - 1);
    }
    fill_template(work, batch, vectors);
    ++work->batches;
    for (int32_t l = 0; l < network->layers - 1; ++l) {
        bound_sums(&network->layer[l], l ? network->layer[l].offset : start, &work->hull, &work->sums);
        compute_layer(work, l, vectors);
        const uint8_t set = l < network->layers - 2 ? decide_early(work, l + 1, &work->hull) : 0;
        if (set)
            return set;
    }
    const int32_t last = network->layers - 1;
    bound_sums(&network->layer[last], last ? network->layer[last].offset : start, &work->hull, &work->sums);
    const uint8_t set = decide_sums(network, &work->sums);
    return set ? set : compute_last(work, vectors);
}

/* ---- boxes ---- */

static int within_limits(const DecideNetwork *network, const DecideBox *box, const int32_t *batch)
{
    const DecideRule *rule = &network->rule;
    if (network->layers < 1 || network->layers > DECIDE_LAYERS || network->layer[0].depth > DECIDE_AXES)
        return 0;
    for (int32_t l = 0; l < network->layers; ++l) {
        const DecideLayer *layer = &network->layer[l];
        if (layer->depth < 1 || layer->width < 1 || layer->padded > DECIDE_WIDTH || layer->padded % 64 ||
            layer->width > layer->padded || (l && layer->depth != layer[-1].width))
            return 0;
    }
    const int32_t scores = network->layer[network->layers - 1].width;
    if (scores > (rule->comparisons ? DECIDE_SCORES : DECISIONS) || (rule->comparisons && rule->decisions >= DECISIONS))
        return 0;
    int64_t samples = 1;
    for (int32_t k = 0; k < network->layer[0].depth; ++k) {
        if (box->low[k] < 0 || box->extent[k] < 1 || box->low[k] + box->extent[k] > CODES || batch[k] < 1)
            return 0;
        samples *= batch[k] < box->extent[k] ? batch[k] : box->extent[k];
    }
    return samples <= DECIDE_SAMPLES;
}

static int fits_bytes(const DecideLayer *layer)
{
    for (int32_t i = 0; i < layer->depth * layer->padded; ++i)
        if (layer->weights[i] != (int8_t)layer->weights[i])
            return 0;
    return 1;
}

/* Whether the sums and multipliers are those that requantize of lanes.h is for. */
static int is_plain(const DecideLayer *layer)
{
    int64_t bound[DECIDE_WIDTH] = {0};
    for (int32_t k = 0; k < layer->depth; ++k)
        for (int32_t n = 0; n < layer->width; ++n)
            bound[n] += 255 * abs(layer->weights[k * layer->padded + n]);
    for (int32_t n = 0; n < layer->width; ++n)
        if (bound[n] + llabs(layer->offset[n]) >= 1 << 23 || layer->multiplier[n] >= 256.0f)
            return 0;
    return layer->zero_point == 0 && layer->low == 0 && layer->high == 255;
}

static void *take(size_t *used, uint8_t *memory, size_t bytes)
{
    void *taken = memory ? memory + *used : NULL;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return taken;
}

/* Where the parts of the memory are; returns its size. */
static size_t lay_out(Work *work, uint8_t *memory, size_t samples)
{
    size_t used = 0, width = 0;
    for (int32_t l = 0; l < work->network->layers; ++l)
        width = width > (size_t)work->network->layer[l].padded ? width : (size_t)work->network->layer[l].padded;
    work->template = take(&used, memory, samples * DECIDE_AXES);
    work->sets = take(&used, memory, samples);
    for (int i = 0; i < 2; ++i)
        work->values[i] = take(&used, memory, samples * width);
    return used;
}

/* Memory for batches of the box; NULL if it is lacking or a limit is exceeded. */
static Work *new_work(const DecideNetwork *network, const DecideBox *box, const int32_t *batch)
{
    if (!within_limits(network, box, batch))
        return NULL;
    size_t samples = 1;
    for (int32_t k = 0; k < network->layer[0].depth; ++k)
        samples *= (size_t)(batch[k] < box->extent[k] ? batch[k] : box->extent[k]);
    samples = (samples + LANES * TOGETHER - 1) / (LANES * TOGETHER) * (LANES * TOGETHER);
    Work plan = {.network = network, .axes = network->layer[0].depth};
    const size_t head = (sizeof plan + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *memory = aligned_alloc(ALIGNMENT, head + lay_out(&plan, NULL, samples));
    if (!memory)
        return NULL;
    lay_out(&plan, memory + head, samples);
    for (int32_t l = 0; l < network->layers; ++l) {
        plan.planes[l] = fits_bytes(&network->layer[l]) ? 1 : PLANES;
        plan.plain[l] = is_plain(&network->layer[l]);
    }
    memcpy(memory, &plan, sizeof plan);
    return (Work *)(void *)memory;
}

static void first_batch(const Work *work, const DecideBox *box, const int32_t *shape, Batch *batch)
{
    memset(batch, 0, sizeof *batch);
    batch->samples = 1;
    for (int32_t k = 0; k < work->axes; ++k) {
        batch->low[k] = box->low[k];
        batch->extent[k] = shape[k] < box->extent[k] ? shape[k] : box->extent[k];
        batch->samples *= batch->extent[k];
    }
}

/* The last axis is the first to change; returns 0 after the last batch. */
static int next_batch(const Work *work, const DecideBox *box, const int32_t *shape, Batch *batch)
{
    int32_t k = work->axes - 1;
    for (; k >= 0; --k) {
        batch->low[k] += batch->extent[k];
        if (batch->low[k] < box->low[k] + box->extent[k])
            break;
        batch->low[k] = box->low[k];
    }
    batch->samples = 1;
    for (int32_t i = 0; i < work->axes; ++i) {
        const int32_t rest = box->low[i] + box->extent[i] - batch->low[i];
        batch->extent[i] = shape[i] < rest ? shape[i] : rest;
        batch->samples *= batch->extent[i];
    }
    return k >= 0;
}

/* Adds the sets of a slice, axes k to the last, to regions[base ...]: slices of one segment are first joined in the first.
 * size: samples of the slice; sets is NULL where all samples have the set `one`. */
static void credit(const Work *work, const Batch *batch, const DecideRegions *regions, int32_t k, int64_t base,
                   size_t size, uint8_t one, uint8_t *sets)
{
    if (k == work->axes) {
        regions->regions[base] |= sets ? *sets : one;
        return;
    }
    const uint16_t *segment = &regions->segment[k][batch->low[k]];
    size /= (size_t)batch->extent[k];
    for (int32_t c = 0, first = 0; c < batch->extent[k]; ++c) {
        uint8_t *joined = sets ? &sets[(size_t)first * size] : NULL;
        if (sets && c > first)
            for (size_t i = 0; i < size; ++i)
                joined[i] |= sets[(size_t)c * size + i];
        if (c + 1 < batch->extent[k] && segment[c + 1] == segment[c])
            continue;
        credit(work, batch, regions, k + 1, base + regions->stride[k] * segment[c], size, one, joined);
        first = c + 1;
    }
}

uint64_t decide_box(const DecideNetwork *network, const DecideBox *box, const int32_t *shape, DecideRegions *regions)
{
    Work *work = new_work(network, box, shape);
    Batch batch;
    uint64_t count = 0;
    if (!work)
        return 0;
    first_batch(work, box, shape, &batch);
    do {
        const uint8_t one = decide_batch(work, &batch);
        credit(work, &batch, regions, 0, 0, (size_t)batch.samples, one, one ? NULL : work->sets);
        count += (uint64_t)batch.samples;
    } while (next_batch(work, box, shape, &batch));
    free(work);
    return count;
}

int32_t decide_find(const DecideNetwork *network, const DecideBox *box, const int32_t *shape, uint8_t wanted,
                    uint8_t *codes)
{
    Work *work = new_work(network, box, shape);
    Batch batch;
    int32_t found = -1; /* a sample of the batch */
    if (!work)
        return -1;
    first_batch(work, box, shape, &batch);
    do {
        const uint8_t one = decide_batch(work, &batch);
        for (int32_t s = 0; s < batch.samples && found < 0; ++s)
            if ((one ? one : work->sets[s]) & wanted)
                found = s;
            else if (one)
                break;
    } while (found < 0 && next_batch(work, box, shape, &batch));
    for (int32_t k = work->axes - 1, rest = found; k >= 0 && found >= 0; --k) {
        codes[k] = (uint8_t)(batch.low[k] + rest % batch.extent[k]);
        rest /= batch.extent[k];
    }
    free(work);
    return found >= 0;
}
