/* Codes and decisions of LANES samples, and decisions of all scores within bounds. */
#ifndef DECIDE_RULE_H
#define DECIDE_RULE_H

#include "decide.h"
#include "lanes.h"

static inline Integers codes_of(const DecideLayer *layer, Integers acc, Floats m)
{
    const int32_t zero = layer->zero_point;
    return round_clamped(scaled(acc, m), (float)(layer->low - zero), (float)(layer->high - zero)) + zero;
}

/* The values that the rule compares: the score or its code, negated if the rule selects the least. */
static inline Floats compared_scores(const DecideNetwork *network, Integers acc, Floats m)
{
    const DecideLayer *last = &network->layer[network->layers - 1];
    const Floats scores = network->float_scores ? scaled(acc, m)
                                                : __builtin_convertvector(codes_of(last, acc, m), Floats);
    return network->rule.comparisons || network->rule.greatest ? scores : -scores;
}

static inline Integers best_sets(int32_t ties, int32_t count, const Floats *scores)
{
    Floats best = scores[0];
    Integers sets = same(1);
    for (int32_t n = 1; n < count; ++n) {
        const Integers bit = same(1 << n), more = scores[n] > best;
        const Integers level = ties == DECIDE_FIRST ? same(0) : scores[n] == best;
        const Integers kept = ties == DECIDE_ALL ? sets | (bit & level) : (sets & ~level) | (bit & level);
        sets = (bit & more) | (kept & ~more);
        best = select_float(more, scores[n], best);
    }
    return sets;
}

static inline Integers sets_of_comparisons(const DecideRule *rule, const Floats *scores)
{
    Integers missed = same(0); /* decisions that have a comparison that does not hold */
    for (int32_t i = 0; i < rule->comparisons; ++i) {
        const DecideComparison *c = &rule->comparison[i];
        const Floats right = c->right < 0 ? same_float(c->constant) : scores[c->right];
        const Integers holds = c->strict ? scores[c->left] > right : scores[c->left] >= right;
        missed |= (c->negated ? holds : ~holds) & (1 << c->decision);
    }
    const int32_t none = 1 << rule->decisions;
    const Integers sets = ~missed & (none - 1);
    return sets | ((sets == 0) & none);
}

/* low[n] <= score n <= high[n]: the set if it is the same for all such scores, otherwise 0. */
static inline uint8_t best_within(const DecideRule *rule, int32_t count, const float *low, const float *high)
{
    for (int32_t n = 0; n < count; ++n) {
        int32_t i = 0;
        for (; i < count; ++i) {
            const int strict = rule->ties == DECIDE_ALL || (rule->ties == DECIDE_FIRST ? i < n : i > n);
            if (i != n && !(strict ? low[n] > high[i] : low[n] >= high[i]))
                break;
        }
        if (i == count)
            return (uint8_t)(1 << n);
    }
    return 0;
}

static inline uint8_t comparisons_within(const DecideRule *rule, const float *low, const float *high)
{
    int32_t missed = 0, open = 0;
    for (int32_t i = 0; i < rule->comparisons; ++i) {
        const DecideComparison *c = &rule->comparison[i];
        const float least_right = c->right < 0 ? c->constant : low[c->right];
        const float greatest_right = c->right < 0 ? c->constant : high[c->right];
        const int always = c->strict ? low[c->left] > greatest_right : low[c->left] >= greatest_right;
        const int sometimes = c->strict ? high[c->left] > least_right : high[c->left] >= least_right;
        if (c->negated ? always : !sometimes)
            missed |= 1 << c->decision;
        else if (always == sometimes)
            continue;
        else
            open |= 1 << c->decision;
    }
    const int32_t none = 1 << rule->decisions, sets = ~missed & (none - 1);
    return (uint8_t)(open & ~missed ? 0 : sets ? sets : none);
}

#endif
