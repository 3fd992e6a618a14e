/* Quantised operators computed wrongly, one function a mistake: written from the descriptions of the mistakes, and
 * sharing nothing with the harness's predictions of them.  Compile with -ffp-contract=off.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What one output of a QGemm is made of: the sum without its bias, and the constants of its column. */
struct product {
    int32_t sum;
    int32_t bias;
    float alpha, sa, sb, sy; /* sy is 0 for a float32 output */
    int32_t zy, qmin, qmax;
};

static int32_t clamp(int64_t q, int32_t low, int32_t high)
{
    return q < low ? low : q > high ? high : (int32_t)q;
}

static int32_t saturate(const struct product *p, double rounded)
{
    const double q = rounded + p->zy;
    return q < p->qmin ? p->qmin : q > p->qmax ? p->qmax : (int32_t)q;
}

static int32_t acc_of(const struct product *p)
{
    return p->sum + p->bias;
}

static float m_of(const struct product *p)
{
    return p->alpha * p->sa * p->sb / p->sy;
}

static double m_in_double(const struct product *p)
{
    return (double)p->alpha * p->sa * p->sb / p->sy;
}

static float v_of(const struct product *p)
{
    return (float)acc_of(p) * m_of(p);
}

static uint32_t swapped(uint32_t x)
{
    return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
}

static float swapped_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = swapped(bits);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* The product v with another multiplier, right from there on. */
static int32_t with_m(const struct product *p, float m)
{
    const float v = (float)acc_of(p) * m;
    return isnan(v) ? p->qmin : saturate(p, rintf(v));
}

/* gemmlowp/fixedpoint.h: SaturatingRoundingDoublingHighMul and RoundingDivideByPOT */
static int32_t high_mul(int32_t a, int32_t b)
{
    const int64_t ab = (int64_t)a * b;
    const int32_t nudge = ab >= 0 ? (1 << 30) : (1 - (1 << 30));
    return (int32_t)((ab + nudge) / (INT64_C(1) << 31));
}

static int32_t divide_by_power_of_two(int32_t x, int exponent)
{
    const int64_t mask = (INT64_C(1) << exponent) - 1;
    const int64_t remainder = x & mask;
    const int64_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

/* TensorFlow Lite: QuantizeMultiplier */
static int32_t quantize_multiplier(double m, int bits, int *shift)
{
    const double q = frexp(m, shift);
    int64_t fixed = (int64_t)round(q * (double)(INT64_C(1) << bits));
    if (fixed == INT64_C(1) << bits) {
        fixed /= 2;
        ++*shift;
    }
    return (int32_t)fixed;
}

static int32_t gemmlowp(const struct product *p, double m)
{
    int shift;
    const int32_t q = quantize_multiplier(m, 31, &shift);
    const int left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    return saturate(p, divide_by_power_of_two(high_mul(acc_of(p) * (1 << left), q), right));
}

static int32_t single_rounding(const struct product *p, double m, int bits)
{
    int shift;
    const int64_t q = quantize_multiplier(m, bits, &shift);
    const int total = bits - shift;
    return saturate(p, (double)((acc_of(p) * q + (INT64_C(1) << (total - 1))) >> total));
}

/* The significands of acc and m multiplied as integers, rounded once, half to even. */
static int32_t significands(const struct product *p)
{
    int exponent;
    const int64_t significand = (int64_t)ldexp(frexp(m_of(p), &exponent), 24);
    const int shift = 24 - exponent;
    const int64_t product = acc_of(p) * significand, unit = INT64_C(1) << shift;
    int64_t quotient = product >> shift;
    const int64_t rest = product - quotient * unit;
    if (2 * rest > unit || (2 * rest == unit && quotient % 2 != 0))
        ++quotient;
    return saturate(p, (double)quotient);
}

typedef int32_t requantize(const struct product *p);

static int32_t right(const struct product *p) { return saturate(p, rintf(v_of(p))); }
static int32_t half_away(const struct product *p) { return saturate(p, roundf(v_of(p))); }
static int32_t half_up(const struct product *p) { return saturate(p, floor((double)v_of(p) + 0.5)); }
static int32_t half_up_float(const struct product *p) { return saturate(p, floorf(v_of(p) + 0.5f)); }
static int32_t half_down(const struct product *p) { return saturate(p, ceil((double)v_of(p) - 0.5)); }
static int32_t truncate_v(const struct product *p) { return saturate(p, truncf(v_of(p))); }
static int32_t floor_v(const struct product *p) { return saturate(p, floorf(v_of(p))); }
static int32_t ceil_v(const struct product *p) { return saturate(p, ceilf(v_of(p))); }

static int32_t add_half_and_cast(const struct product *p)
{
    float v = v_of(p);
    v = fmaxf(v, (float)(p->qmin - p->zy));
    v = fminf(v, (float)(p->qmax - p->zy));
    v = v + (float)p->zy;
    return (int32_t)(v + 0.5f);
}

static int32_t zero_point_before_rounding(const struct product *p)
{
    return clamp(llrintf(v_of(p) + (float)p->zy), p->qmin, p->qmax);
}

static int32_t fused_zero_point(const struct product *p)
{
    return clamp(llrintf(fmaf((float)acc_of(p), m_of(p), (float)p->zy)), p->qmin, p->qmax);
}

static int32_t fused_magic(const struct product *p)
{
    const float magic = 12582912.0f;
    return saturate(p, fmaf((float)acc_of(p), m_of(p), magic) - magic);
}

static int32_t product_in_double(const struct product *p) { return saturate(p, rint((double)acc_of(p) * m_of(p))); }
static int32_t product_in_double_half_away(const struct product *p)
{
    return saturate(p, round((double)acc_of(p) * m_of(p)));
}
static int32_t all_in_double(const struct product *p) { return saturate(p, rint(acc_of(p) * m_in_double(p))); }
static int32_t all_in_double_half_away(const struct product *p) { return saturate(p, round(acc_of(p) * m_in_double(p))); }
static int32_t m_double_cast(const struct product *p) { return with_m(p, (float)m_in_double(p)); }
static int32_t m_reciprocal(const struct product *p) { return with_m(p, p->alpha * p->sa * p->sb * (1 / p->sy)); }
static int32_t m_b_over_y(const struct product *p) { return with_m(p, p->alpha * p->sa * (p->sb / p->sy)); }
static int32_t m_a_over_y(const struct product *p) { return with_m(p, p->alpha * p->sa / p->sy * p->sb); }
static int32_t m_half(const struct product *p) { return with_m(p, (float)(_Float16)m_in_double(p)); }
static int32_t m_swapped(const struct product *p) { return with_m(p, swapped_float(m_of(p))); }

static int32_t dequantised_divided(const struct product *p)
{
    return saturate(p, rintf((float)acc_of(p) * (p->alpha * p->sa * p->sb) / p->sy));
}

static int32_t dequantised_reciprocal(const struct product *p)
{
    return saturate(p, rintf((float)acc_of(p) * (p->alpha * p->sa * p->sb) * (1 / p->sy)));
}

static int32_t late_bias(const struct product *p)
{
    return saturate(p, rintf((float)p->sum * m_of(p) + (float)p->bias * m_of(p)));
}

static int32_t late_bias_fused(const struct product *p)
{
    return saturate(p, rintf(fmaf((float)p->sum, m_of(p), (float)p->bias * m_of(p))));
}

static int32_t late_real_bias(const struct product *p)
{
    const float scale = p->alpha * p->sa * p->sb, real = (float)p->sum * scale + (float)p->bias * scale;
    return saturate(p, rintf(real / p->sy));
}

static int32_t gemmlowp_float(const struct product *p) { return gemmlowp(p, m_of(p)); }
static int32_t gemmlowp_double(const struct product *p) { return gemmlowp(p, m_in_double(p)); }
static int32_t tflite(const struct product *p) { return single_rounding(p, m_in_double(p), 31); }
static int32_t q31_of_float(const struct product *p) { return single_rounding(p, m_of(p), 31); }
static int32_t q15(const struct product *p) { return single_rounding(p, m_in_double(p), 15); }
static int32_t early_top(const struct product *p) { return clamp(right(p), p->qmin, p->qmax - 1); }
static int32_t early_bottom(const struct product *p) { return clamp(right(p), p->qmin + 1, p->qmax); }
static int32_t early_both(const struct product *p) { return clamp(right(p), p->qmin + 1, p->qmax - 1); }
static int32_t no_zero_point(const struct product *p) { return clamp(llrintf(v_of(p)), p->qmin, p->qmax); }

static int32_t wrapped(const struct product *p)
{
    const int32_t q = (int32_t)rintf(v_of(p)) + p->zy;
    return p->qmin < 0 ? (int8_t)q : (uint8_t)q;
}

static const struct {
    const char *name;
    requantize *function;
} REQUANTIZE[] = {
    {"right", right},
    {"half away", half_away},
    {"half up", half_up},
    {"half up, float", half_up_float},
    {"half down", half_down},
    {"truncate", truncate_v},
    {"floor", floor_v},
    {"ceil", ceil_v},
    {"(int)(v + 0.5f)", add_half_and_cast},
    {"zero point before rounding", zero_point_before_rounding},
    {"zero point left out", no_zero_point},
    {"FMA with zero point", fused_zero_point},
    {"FMA into magic", fused_magic},
    {"product in double", product_in_double},
    {"product in double, half away", product_in_double_half_away},
    {"24-bit significands", significands},
    {"all in double", all_in_double},
    {"all in double, half away", all_in_double_half_away},
    {"m double, cast", m_double_cast},
    {"m by reciprocal", m_reciprocal},
    {"m = a * (b / y)", m_b_over_y},
    {"m = (a / y) * b", m_a_over_y},
    {"m float16", m_half},
    {"m bytes swapped", m_swapped},
    {"dequantised, divided", dequantised_divided},
    {"dequantised, reciprocal", dequantised_reciprocal},
    {"bias after scaling", late_bias},
    {"bias after scaling, fused", late_bias_fused},
    {"bias before division", late_real_bias},
    {"gemmlowp, float m", gemmlowp_float},
    {"gemmlowp, double m", gemmlowp_double},
    {"TFLite single rounding", tflite},
    {"Q31 of float m", q31_of_float},
    {"Q15", q15},
    {"saturate early, top", early_top},
    {"saturate early, bottom", early_bottom},
    {"saturate early, both", early_both},
    {"wrap", wrapped},
};

const char *requantize_name(size_t mutant)
{
    return mutant < sizeof REQUANTIZE / sizeof *REQUANTIZE ? REQUANTIZE[mutant].name : NULL;
}

/* sums (vectors, width) and the constants of the columns -> codes (vectors, width) */
void requantize_all(size_t mutant, size_t vectors, size_t width, const int32_t *sums, const struct product *columns,
                    int32_t *codes)
{
    for (size_t v = 0; v < vectors; ++v)
        for (size_t n = 0; n < width; ++n) {
            struct product p = columns[n];
            p.sum = sums[v * width + n];
            codes[v * width + n] = REQUANTIZE[mutant].function(&p);
        }
}

/* A float32 output. */

static float float_m(const struct product *p) { return p->alpha * p->sa * p->sb; }
static float exact_float_m(const struct product *p) { return (float)((double)p->alpha * p->sa * p->sb); }

static float toward_zero(double exact)
{
    const float y = (float)exact;
    return fabs(y) > fabs(exact) ? nextafterf(y, 0) : y;
}

typedef float scale(const struct product *p);

static float scale_right(const struct product *p) { return (float)acc_of(p) * float_m(p); }
static float scale_late(const struct product *p) { return (float)p->sum * float_m(p) + (float)p->bias * float_m(p); }
static float scale_fused(const struct product *p) { return fmaf((float)p->sum, float_m(p), (float)p->bias * float_m(p)); }
static float scale_double_m(const struct product *p) { return (float)acc_of(p) * exact_float_m(p); }
static float scale_no_alpha(const struct product *p) { return (float)acc_of(p) * (p->sa * p->sb); }
static float scale_order(const struct product *p) { return (float)acc_of(p) * (p->alpha * (p->sa * p->sb)); }
static float scale_half_m(const struct product *p) { return (float)acc_of(p) * (float)(_Float16)exact_float_m(p); }
static float scale_half(const struct product *p) { return (float)(_Float16)scale_right(p); }
static float scale_swapped_m(const struct product *p) { return (float)acc_of(p) * swapped_float(float_m(p)); }
static float scale_swapped(const struct product *p) { return swapped_float(scale_right(p)); }
static float scale_truncated(const struct product *p) { return toward_zero((double)acc_of(p) * float_m(p)); }

static const struct {
    const char *name;
    scale *function;
} SCALE[] = {
    {"right", scale_right},
    {"bias after scaling", scale_late},
    {"bias after scaling, fused", scale_fused},
    {"m double, cast", scale_double_m},
    {"alpha left out", scale_no_alpha},
    {"m = alpha * (a * b)", scale_order},
    {"m float16", scale_half_m},
    {"output float16", scale_half},
    {"m bytes swapped", scale_swapped_m},
    {"output bytes swapped", scale_swapped},
    {"product truncated", scale_truncated},
};

const char *scale_name(size_t mutant)
{
    return mutant < sizeof SCALE / sizeof *SCALE ? SCALE[mutant].name : NULL;
}

void scale_all(size_t mutant, size_t vectors, size_t width, const int32_t *sums, const struct product *columns,
               float *y)
{
    for (size_t v = 0; v < vectors; ++v)
        for (size_t n = 0; n < width; ++n) {
            struct product p = columns[n];
            p.sum = sums[v * width + n];
            y[v * width + n] = SCALE[mutant].function(&p);
        }
}

/* The sum with its bias, wrongly: codes a (depth), weights b (depth, width), all widened to int32. */

struct sum {
    size_t depth, width;
    const int32_t *b, *zb, *bias;
    int32_t za;
    bool a_is_signed, b_is_signed;
};

typedef int32_t accumulate(const struct sum *s, const int32_t *a, size_t n);

static int32_t weight(const struct sum *s, size_t k, size_t n)
{
    return s->b[k * s->width + n];
}

static int32_t term(const struct sum *s, const int32_t *a, size_t k, size_t n)
{
    return (a[k] - s->za) * (weight(s, k, n) - s->zb[n]);
}

static int32_t terms(const struct sum *s, const int32_t *a, size_t n, size_t depth)
{
    int32_t acc = 0;
    for (size_t k = 0; k < depth; ++k)
        acc += term(s, a, k, n);
    return acc;
}

static int32_t sum_right(const struct sum *s, const int32_t *a, size_t n)
{
    return terms(s, a, n, s->depth) + s->bias[n];
}

static int32_t sum_no_bias(const struct sum *s, const int32_t *a, size_t n) { return terms(s, a, n, s->depth); }
static int32_t sum_without_last(const struct sum *s, const int32_t *a, size_t n)
{
    return terms(s, a, n, s->depth - 1) + s->bias[n];
}
static int32_t sum_without_tail_of_8(const struct sum *s, const int32_t *a, size_t n)
{
    return terms(s, a, n, s->depth / 8 * 8) + s->bias[n];
}
static int32_t sum_swapped_bias(const struct sum *s, const int32_t *a, size_t n)
{
    return (int32_t)((uint32_t)terms(s, a, n, s->depth) + swapped((uint32_t)s->bias[n]));
}

static int32_t sum_with_za(const struct sum *s, const int32_t *a, size_t n, int32_t za)
{
    struct sum other = *s;
    other.za = za;
    return sum_right(&other, a, n);
}

static int32_t sum_za_0(const struct sum *s, const int32_t *a, size_t n) { return sum_with_za(s, a, n, 0); }
static int32_t sum_za_128(const struct sum *s, const int32_t *a, size_t n) { return sum_with_za(s, a, n, 128); }
static int32_t sum_za_minus_128(const struct sum *s, const int32_t *a, size_t n) { return sum_with_za(s, a, n, -128); }

static int32_t sum_zb(const struct sum *s, const int32_t *a, size_t n, int32_t zb)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (a[k] - s->za) * (weight(s, k, n) - zb);
    return acc;
}

static int32_t sum_zb_0(const struct sum *s, const int32_t *a, size_t n) { return sum_zb(s, a, n, 0); }
static int32_t sum_zb_128(const struct sum *s, const int32_t *a, size_t n)
{
    return sum_zb(s, a, n, s->b_is_signed ? s->zb[n] : 128);
}

static int32_t other_sign(int32_t code, bool is_signed)
{
    return is_signed ? (uint8_t)code : (int8_t)code;
}

static int32_t sum_misread_inputs(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (other_sign(a[k], s->a_is_signed) - s->za) * (weight(s, k, n) - s->zb[n]);
    return acc;
}

static int32_t sum_misread_weights(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (a[k] - s->za) * (other_sign(weight(s, k, n), s->b_is_signed) - s->zb[n]);
    return acc;
}

static int32_t sum_in_16_bits(const struct sum *s, const int32_t *a, size_t n) { return (short)sum_right(s, a, n); }

static int32_t sum_of_narrow_inputs(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (int8_t)(a[k] - s->za) * (weight(s, k, n) - s->zb[n]);
    return acc;
}

static int32_t sum_of_narrow_weights(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (a[k] - s->za) * (int8_t)(weight(s, k, n) - s->zb[n]);
    return acc;
}

/* x86's VPMADDUBSW on the raw codes; the zero points are taken off afterwards. */
static int32_t sum_saturated_pairs(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = sum_right(s, a, n);
    for (size_t k = 0; k + 1 < s->depth; k += 2) {
        const int32_t pair = a[k] * weight(s, k, n) + a[k + 1] * weight(s, k + 1, n);
        acc += clamp(pair, INT16_MIN, INT16_MAX) - pair;
    }
    return acc;
}

/* As if the memory of the weights, (depth, width), held (width, depth), and the other way round. */
static int32_t sum_transposed(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k)
        acc += (a[k] - s->za) * (s->b[n * s->depth + k] - s->zb[n]);
    return acc;
}

static int32_t sum_untransposed(const struct sum *s, const int32_t *a, size_t n)
{
    int32_t acc = s->bias[n];
    for (size_t k = 0; k < s->depth; ++k) {
        const size_t place = k * s->width + n, column = place / s->depth, row = place % s->depth;
        acc += (a[k] - s->za) * (weight(s, row, column) - s->zb[n]);
    }
    return acc;
}

static const struct {
    const char *name;
    accumulate *function;
} SUMS[] = {
    {"right", sum_right},
    {"bias left out", sum_no_bias},
    {"bias bytes swapped", sum_swapped_bias},
    {"last input left out", sum_without_last},
    {"tail of 8 inputs left out", sum_without_tail_of_8},
    {"input zero point 0", sum_za_0},
    {"input zero point 128", sum_za_128},
    {"input zero point -128", sum_za_minus_128},
    {"weight zero point 0", sum_zb_0},
    {"weight zero point 128", sum_zb_128},
    {"input codes misread", sum_misread_inputs},
    {"weights misread", sum_misread_weights},
    {"accumulator of 16 bits", sum_in_16_bits},
    {"inputs of 8 bits", sum_of_narrow_inputs},
    {"weights of 8 bits", sum_of_narrow_weights},
    {"int16 pair saturation", sum_saturated_pairs},
    {"weights transposed", sum_transposed},
    {"weights not transposed", sum_untransposed},
};

const char *accumulate_name(size_t mutant)
{
    return mutant < sizeof SUMS / sizeof *SUMS ? SUMS[mutant].name : NULL;
}

void accumulate_all(size_t mutant, size_t vectors, const struct sum *s, const int32_t *a, int32_t *acc)
{
    for (size_t v = 0; v < vectors; ++v)
        for (size_t n = 0; n < s->width; ++n)
            acc[v * s->width + n] = SUMS[mutant].function(s, &a[v * s->depth], n);
}

/* QuantizeLinear. */

struct quantization {
    float scale;
    int32_t zero_point, qmin, qmax;
};

typedef int32_t quantize(const struct quantization *q, float x);

static int32_t to_code(const struct quantization *q, float v)
{
    v = v > (float)(q->qmin - q->zero_point) ? v : (float)(q->qmin - q->zero_point);
    v = v < (float)(q->qmax - q->zero_point) ? v : (float)(q->qmax - q->zero_point);
    return (int32_t)rintf(v) + q->zero_point;
}

static int32_t rounded_code(const struct quantization *q, double rounded)
{
    const double code = rounded + q->zero_point;
    return code > q->qmin ? code < q->qmax ? (int32_t)code : q->qmax : q->qmin; /* NaN is the lowest */
}

static int32_t quantize_right(const struct quantization *q, float x) { return to_code(q, x / q->scale); }
static int32_t quantize_half_away(const struct quantization *q, float x) { return rounded_code(q, roundf(x / q->scale)); }
static int32_t quantize_half_up(const struct quantization *q, float x)
{
    return rounded_code(q, floorf(x / q->scale + 0.5f));
}
static int32_t quantize_truncated(const struct quantization *q, float x) { return rounded_code(q, truncf(x / q->scale)); }
static int32_t quantize_reciprocal(const struct quantization *q, float x) { return to_code(q, x * (1 / q->scale)); }
static int32_t quantize_double(const struct quantization *q, float x)
{
    return rounded_code(q, rint((double)x / q->scale));
}

static int32_t quantize_fused(const struct quantization *q, float x)
{
    const float v = rintf(fmaf(x, 1 / q->scale, (float)q->zero_point));
    return v > q->qmin ? v < q->qmax ? (int32_t)v : q->qmax : q->qmin;
}

static int32_t quantize_zero_point_first(const struct quantization *q, float x)
{
    const float v = rintf(x / q->scale + (float)q->zero_point);
    return v > q->qmin ? v < q->qmax ? (int32_t)v : q->qmax : q->qmin;
}

static int32_t quantize_cast(const struct quantization *q, float x)
{
    float v = x / q->scale;
    v = v > (float)(q->qmin - q->zero_point) ? v : (float)(q->qmin - q->zero_point);
    v = v < (float)(q->qmax - q->zero_point) ? v : (float)(q->qmax - q->zero_point);
    return (int32_t)(v + (float)q->zero_point + 0.5f);
}

static int32_t quantize_nan_to_zero(const struct quantization *q, float x)
{
    return isnan(x) ? q->zero_point : quantize_right(q, x);
}

static int32_t quantize_int32_first(const struct quantization *q, float x)
{
    const float v = x / q->scale;
    if (isnan(v) || v >= 0x1p31f || v < -0x1p31f) /* CVTPS2DQ gives INT32_MIN */
        return q->qmin;
    return clamp(llrintf(v) + q->zero_point, q->qmin, q->qmax);
}

static const struct {
    const char *name;
    quantize *function;
} QUANTIZE[] = {
    {"right", quantize_right},
    {"half away", quantize_half_away},
    {"half up", quantize_half_up},
    {"truncate", quantize_truncated},
    {"(int)(v + 0.5f)", quantize_cast},
    {"reciprocal", quantize_reciprocal},
    {"reciprocal, FMA", quantize_fused},
    {"division in double", quantize_double},
    {"zero point before rounding", quantize_zero_point_first},
    {"NaN to zero point", quantize_nan_to_zero},
    {"int32 before saturation", quantize_int32_first},
};

const char *quantize_name(size_t mutant)
{
    return mutant < sizeof QUANTIZE / sizeof *QUANTIZE ? QUANTIZE[mutant].name : NULL;
}

void quantize_all(size_t mutant, size_t count, const struct quantization *q, const float *x, int32_t *codes)
{
    for (size_t i = 0; i < count; ++i)
        codes[i] = QUANTIZE[mutant].function(q, x[i]);
}
