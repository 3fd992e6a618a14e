/* Decisions of all code vectors of a box, in batches: sub-boxes of at most DECIDE_SAMPLES code vectors.
 *
 * For each batch and layer, inputs a[k] within low[k] .. high[k]:
 *
 *     offset[n]   += sum of a[k] * weights[k][n] over constant inputs, low[k] = high[k]
 *     acc_low[n]   = offset[n] + sum_k min(low[k] * weights[k][n], high[k] * weights[k][n])     acc_high with max
 *     y[n] is constant where the codes of acc_low[n] and acc_high[n] are equal: rounding is monotone
 *
 * The other outputs are computed for every sample of the batch, and their least and greatest codes are the bounds of
 * the next layer.  These bounds are exact: they stay close over many layers, as bounds computed from bounds do not.
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
    int32_t words[PLANES * GROUPS * GROUP], offset[GROUP];
    float multiplier[GROUP];
    uint8_t least[GROUP], greatest[GROUP];
} Four;

typedef struct {
    const DecideNetwork *network;
    int32_t axes, extent[DECIDE_AXES];     /* of whole batches */
    int32_t planes[DECIDE_LAYERS];         /* 1 if the weights fit int8 */
    int32_t plain[DECIDE_LAYERS];          /* lanes.h's requantize gives the codes */
    int32_t trust[DECIDE_LAYERS], batches; /* whether bounds after this layer decided lately */
    /* Samples of whole batches and of smaller ones: one template for each set of axes with a smaller extent. */
    uint8_t *templates, filled[1 << DECIDE_AXES];
    size_t template_size;
    uint8_t *values[2], *sets;
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
    for (int32_t n = 0; n < layer->width; n += LANES) {
        const Floats m = load_floats(&layer->multiplier[n]);
        store_bytes(&codes->low[n], codes_of(layer, load_integers(&sums->low[n]), m));
        store_bytes(&codes->high[n], codes_of(layer, load_integers(&sums->high[n]), m));
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
            for (int32_t j = 0; SHIFT != 0 && j < GROUP; ++j)
                offset += (uint32_t)(SHIFT * (int8_t)(word >> (8 * j)));
            four->words[r * GROUP + i] = (int32_t)word;
        }
        four->offset[i] = (int32_t)offset;
        four->multiplier[i] = layer->multiplier[n];
    }
}

/* Adds the products of four outputs of a vector of samples.  ready: the weights, in registers if possible; or NULL. */
INLINE void accumulate(const Inputs *inputs, const Four *four, int32_t groups, int32_t planes, int32_t at,
                       const Weights *ready, Integers acc[GROUP])
{
    for (int32_t r = 0; r < planes * groups; ++r) {
        const uint8_t *group = inputs->group[planes > 1 ? r % groups : r];
        const Factor a = factor(load_group(&group[(size_t)at * GROUP_BYTES]));
        for (int32_t i = 0; i < GROUP; ++i)
            acc[i] = dot(acc[i], a, ready ? ready[r * GROUP + i] : weights(four->words[r * GROUP + i]));
    }
}

/* plain: as requantize of lanes.h does it; few: at most FEW groups, in one plane. */
INLINE void compute_four(const DecideLayer *layer, const Inputs *inputs, Four *four, int32_t vectors,
                         uint8_t *restrict to, int32_t groups, int32_t planes, int plain, int few)
{
    Group minimum = (Group)same(-1), maximum = (Group)same(0);
    Floats m[GROUP];
    Integers offset[GROUP];
    Weights ready[FEW * GROUP];
    for (int32_t i = 0; i < GROUP; ++i) {
        m[i] = same_float(four->multiplier[i]);
        offset[i] = same(four->offset[i] + (plain ? START : 0));
    }
    for (int32_t i = 0; few && i < groups * GROUP; ++i)
        ready[i] = weights(four->words[i]);
    for (int32_t at = 0; at < vectors; ++at) {
        Integers acc[GROUP] = {offset[0], offset[1], offset[2], offset[3]};
        accumulate(inputs, four, groups, planes, at, few ? ready : NULL, acc);
        Group codes;
        if (plain)
            codes = requantize(acc, m);
        else {
            Integers words = same(0);
            for (int32_t i = 0; i < GROUP; ++i)
                words |= codes_of(layer, acc[i], m[i]) << (8 * i);
            codes = (Group)words;
        }
        store_group(&to[(size_t)at * GROUP_BYTES], codes);
        minimum = least(minimum, codes);
        maximum = greatest(maximum, codes);
    }
    const uint32_t lows = least_of_lanes(minimum), highs = ~least_of_lanes(~maximum);
    memcpy(four->least, &lows, GROUP);
    memcpy(four->greatest, &highs, GROUP);
}

/* compute_four, compiled for each usual number of groups. */
static void compute_outputs(const DecideLayer *layer, const Inputs *inputs, Four *four, int32_t vectors, uint8_t *to,
                            int32_t planes, int plain)
{
#define CASE(COUNT)                                                        \
    case COUNT:                                                            \
        compute_four(layer, inputs, four, vectors, to, COUNT, 1, 1, 1);    \
        break;
    switch (plain && planes == 1 ? inputs->groups : 0) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
    default:
        if (plain && planes == 1)
            compute_four(layer, inputs, four, vectors, to, inputs->groups, 1, 1, 0);
        else
            compute_four(layer, inputs, four, vectors, to, inputs->groups, planes, plain, 0);
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
        pick_four(layer, &work->sums, row, inputs->groups, work->planes[l], &output[j], four);
        compute_outputs(layer, inputs, four, vectors, &work->values[l & 1][(size_t)(j / GROUP) * bytes],
                        work->planes[l], work->plain[l]);
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
 * usual: the first index of the greatest float score, or of the least by negative multipliers. */
INLINE uint8_t compute_sets(Work *work, int32_t vectors, int32_t groups, int32_t planes, int usual)
{
    const DecideNetwork *network = work->network;
    const DecideRule *rule = &network->rule;
    const int32_t width = network->layer[network->layers - 1].width;
    Floats scores[DECIDE_SCORES];
    Integers some = same(0), all = same(-1);
    for (int32_t at = 0; at < vectors; ++at) {
        for (int32_t n = 0; n < width; n += GROUP) {
            const Four *four = &work->four[n / GROUP];
            Integers acc[GROUP];
            for (int32_t i = 0; i < GROUP; ++i)
                acc[i] = same(four->offset[i]);
            accumulate(&work->inputs, four, groups, planes, at, NULL, acc);
            for (int32_t i = 0; i < GROUP; ++i) {
                const Floats m = same_float(four->multiplier[i]);
                scores[n + i] = usual ? scaled(acc[i], m) : compared_scores(network, acc[i], m);
            }
        }
        const Integers sets = usual               ? best_sets(DECIDE_FIRST, width, scores)
                              : rule->comparisons ? sets_of_comparisons(rule, scores)
                                                  : best_sets(rule->ties, width, scores);
        some |= sets;
        all &= sets;
        store_bytes(&work->sets[at * LANES], sets);
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
#define CASE(COUNT) \
    case COUNT:     \
        return compute_sets(work, vectors, COUNT, 1, 1);
    switch (usual ? groups : 0) {
        CASE(1) CASE(2) CASE(3) CASE(4)
    default:
        return usual ? compute_sets(work, vectors, groups, 1, 1) : compute_sets(work, vectors, groups, planes, 0);
    }
#undef CASE
}

/* ---- one batch ---- */

/* The samples of a batch as codes less the lowest, the last axis first to change; the last fills the last vector. */
static void fill_template(const Work *work, const Batch *batch, const Inputs *inputs, int32_t samples,
                          uint8_t *template)
{
    uint8_t at[DECIDE_AXES] = {0};
    for (int32_t s = 0; s < samples; ++s) {
        for (int32_t j = 0; j < inputs->groups * GROUP; ++j)
            template[(j / GROUP * samples + s) * GROUP + j % GROUP] = inputs->input[j] < 0 ? 0 : at[inputs->input[j]];
        if (s < batch->samples - 1)
            for (int32_t k = work->axes - 1; k >= 0 && ++at[k] == batch->extent[k]; --k)
                at[k] = 0;
    }
}

/* The axes of a batch as inputs. */
static void find_inputs(Work *work, const Batch *batch, int32_t vectors)
{
    Inputs *inputs = &work->inputs;
    int32_t used = 0, smaller = 0;
    for (int32_t k = 0; k < work->axes; ++k) {
        if (batch->extent[k] > 1)
            inputs->input[used++] = k;
        smaller |= (batch->extent[k] < work->extent[k]) << k;
    }
    inputs->groups = (used + GROUP - 1) / GROUP;
    for (int32_t j = used; j < inputs->groups * GROUP; ++j)
        inputs->input[j] = -1;
    uint8_t *template = &work->templates[(size_t)smaller * work->template_size];
    for (int32_t g = 0; g < inputs->groups; ++g)
        inputs->group[g] = &template[(size_t)g * (size_t)vectors * GROUP_BYTES];
    if (!work->filled[smaller])
        fill_template(work, batch, inputs, vectors * LANES, template);
    work->filled[smaller] = 1;
}

/* The set of decisions of all samples if it is one; otherwise 0, and work->sets has theirs in the template's order. */
static uint8_t decide_batch(Work *work, const Batch *batch)
{
    const DecideNetwork *network = work->network;
    const int32_t vectors = (batch->samples + LANES - 1) / LANES;
    int32_t start[DECIDE_WIDTH];
    memcpy(start, network->layer[0].offset, sizeof *start * (size_t)network->layer[0].padded);
    for (int32_t k = 0; k < work->axes; ++k) {
        for (int32_t n = 0; n < network->layer[0].padded; ++n)
            start[n] += network->layer[0].weights[k * network->layer[0].padded + n] * batch->low[k];
        work->hull.low[k] = 0;
        work->hull.high[k] = (uint8_t)(batch->extent[k] - 1);
    }
    find_inputs(work, batch, vectors);
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

/* Checks that sums fit int32 for all codes and that float32 products are finite.  Computes planes and plain. */
static int measure_layer(const DecideLayer *layer, int32_t *planes, int32_t *plain)
{
    if (layer->depth < 1 || layer->depth > DECIDE_WIDTH || layer->width < 1 || layer->width > layer->padded ||
        layer->padded > DECIDE_WIDTH || layer->padded % 64)
        return 0;
    *planes = 1;
    *plain = layer->zero_point == 0 && layer->low == 0 && layer->high == CODES - 1;
    for (int32_t n = 0; n < layer->width; ++n) {
        int64_t low = layer->offset[n], high = low;
        for (int32_t k = 0; k < layer->depth; ++k) {
            const int32_t w = layer->weights[k * layer->padded + n];
            if (w < -255 || w > 255)
                return 0;
            *planes = w == (int8_t)w ? *planes : PLANES;
            low += w < 0 ? w * (CODES - 1) : 0;
            high += w > 0 ? w * (CODES - 1) : 0;
        }
        const float m = layer->multiplier[n];
        if (low < INT32_MIN || high > INT32_MAX || !(m > 0 && m < 0x1p96f))
            return 0;
        *plain &= low > -(1 << 23) && high < 1 << 23 && m < 0x1p8f; /* requantize of lanes.h */
    }
    return 1;
}

static int within_limits(const DecideNetwork *network, const DecideBox *box, const int32_t *shape)
{
    const DecideRule *rule = &network->rule;
    const int32_t scores = network->layer[network->layers - 1].width;
    if (network->layer[0].depth > DECIDE_AXES || scores > (rule->comparisons ? DECIDE_SCORES : DECISIONS) ||
        (rule->comparisons && rule->decisions >= DECISIONS))
        return 0;
    for (int32_t i = 0; i < rule->comparisons; ++i) {
        const DecideComparison *c = &rule->comparison[i];
        if (c->decision < 0 || c->decision >= rule->decisions || c->left < 0 || c->left >= scores ||
            c->right >= scores)
            return 0;
    }
    int32_t samples = 1;
    for (int32_t k = 0; k < network->layer[0].depth; ++k) {
        if (box->low[k] < 0 || box->extent[k] < 1 || box->low[k] > CODES - box->extent[k] || shape[k] < 1)
            return 0;
        samples *= shape[k] < box->extent[k] ? shape[k] : box->extent[k];
        if (samples > DECIDE_SAMPLES)
            return 0;
    }
    return 1;
}

static void *take(size_t *used, uint8_t *memory, size_t bytes)
{
    void *taken = memory ? memory + *used : NULL;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return taken;
}

/* Places the parts of the memory; returns its size. */
static size_t lay_out(Work *work, uint8_t *memory, size_t samples)
{
    size_t used = 0, width = 0;
    for (int32_t l = 0; l < work->network->layers; ++l)
        width = width > (size_t)work->network->layer[l].padded ? width : (size_t)work->network->layer[l].padded;
    work->template_size = samples * DECIDE_AXES;
    work->templates = take(&used, memory, work->template_size << work->axes);
    work->sets = take(&used, memory, samples);
    for (int i = 0; i < 2; ++i)
        work->values[i] = take(&used, memory, samples * width);
    return used;
}

/* A batch as large as the rest of the box and the shape allow. */
static void fit_batch(const DecideBox *box, const int32_t *shape, int32_t axes, Batch *batch)
{
    batch->samples = 1;
    for (int32_t k = 0; k < axes; ++k) {
        const int32_t rest = box->low[k] + box->extent[k] - batch->low[k];
        batch->extent[k] = shape[k] < rest ? shape[k] : rest;
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
    fit_batch(box, shape, work->axes, batch);
    return k >= 0;
}

/* Memory for batches of the box, and the first batch; NULL if memory is lacking or a limit is exceeded. */
static Work *start_work(const DecideNetwork *network, const DecideBox *box, const int32_t *shape, Batch *batch)
{
    if (network->layers < 1 || network->layers > DECIDE_LAYERS)
        return NULL;
    Work plan = {.network = network, .axes = network->layer[0].depth};
    for (int32_t l = 0; l < network->layers; ++l)
        if (!measure_layer(&network->layer[l], &plan.planes[l], &plan.plain[l]) ||
            (l && network->layer[l].depth != network->layer[l - 1].width))
            return NULL;
    if (!within_limits(network, box, shape))
        return NULL;
    memcpy(batch->low, box->low, sizeof batch->low);
    fit_batch(box, shape, plan.axes, batch);
    memcpy(plan.extent, batch->extent, sizeof plan.extent);
    const size_t samples = (size_t)(batch->samples + LANES - 1) / LANES * LANES;
    const size_t head = (sizeof plan + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *memory = aligned_alloc(ALIGNMENT, head + lay_out(&plan, NULL, samples));
    if (!memory)
        return NULL;
    lay_out(&plan, memory + head, samples);
    memcpy(memory, &plan, sizeof plan);
    return (Work *)(void *)memory;
}

int32_t decide_fits(const DecideNetwork *network, const DecideBox *box, const int32_t *shape)
{
    Batch batch = {.samples = 0};
    Work *work = start_work(network, box, shape, &batch);
    free(work);
    return work != NULL;
}

/* Adds the sets of a slice, axes k to the last, to regions[base ...]; joins slices of one segment in the first.
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
    Batch batch = {.samples = 0};
    Work *work = start_work(network, box, shape, &batch);
    uint64_t count = 0;
    if (!work)
        return 0;
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
    Batch batch = {.samples = 0};
    Work *work = start_work(network, box, shape, &batch);
    int32_t found = -1; /* a sample of the batch */
    if (!work)
        return -1;
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
