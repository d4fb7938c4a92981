#define _GNU_SOURCE
#include "resample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOBES 48u      /* taps per sample of the lower rate: 70 dB of stop band, passes up to 0.85 of its Nyquist */
#define CUTOFF 0.94    /* of the lower rate's Nyquist; the stop band begins just above it */
#define KAISER 7.0     /* window shape for about 70 dB */
#define MAX_RATIO 8u
#define MAX_TERM 512u
#define BLOCK 1024u    /* input samples converted at a time */

struct pl_resampler {
    uint32_t up, down, taps; /* taps per phase, spanning as many source samples */
    uint32_t phase;          /* of the next output sample, in 1/up source samples from the next input sample */
    float *filter;           /* up x taps, each phase in the order of the input it meets */
    float *line;             /* taps - 1 samples of history, then up to BLOCK of input */
};

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return b ? gcd(b, a % b) : a;
}

static double bessel_i0(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; k < 40; k++) {
        term *= (x / 2 / k) * (x / 2 / k);
        sum += term;
    }
    return sum;
}

/* Windowed sinc at `up` times the source rate, split into phases; each phase sums to 1, so that silence and constant
 * levels pass unchanged. */
static void build_filter(pl_resampler *r)
{
    uint32_t length = r->up * r->taps;
    double centre = (length - 1) / 2.0, cutoff = CUTOFF * 0.5 / (r->up > r->down ? r->up : r->down);
    for (uint32_t i = 0; i < length; i++) {
        double x = i - centre, relative = x / (centre + 0.5);
        double sinc = x == 0 ? 2 * cutoff : sin(2 * M_PI * cutoff * x) / (M_PI * x);
        double window = bessel_i0(KAISER * sqrt(1 - relative * relative)) / bessel_i0(KAISER);
        r->filter[(i % r->up) * r->taps + (r->taps - 1 - i / r->up)] = (float)(sinc * window);
    }
    for (uint32_t phase = 0; phase < r->up; phase++) {
        float *h = r->filter + phase * r->taps;
        double sum = 0;
        for (uint32_t k = 0; k < r->taps; k++)
            sum += h[k];
        for (uint32_t k = 0; k < r->taps; k++)
            h[k] = (float)(h[k] / sum);
    }
}

pl_resampler *pl_resampler_new(uint32_t source_hz, uint32_t target_hz)
{
    uint32_t common = gcd(source_hz, target_hz);
    if (!source_hz || !target_hz || target_hz / common > MAX_TERM || source_hz / common > MAX_TERM ||
        source_hz / common > MAX_RATIO * (target_hz / common) || target_hz / common > MAX_RATIO * (source_hz / common)) {
        errno = EINVAL;
        return NULL;
    }
    pl_resampler *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->up = target_hz / common;
    r->down = source_hz / common;
    r->taps = r->down > r->up ? (LOBES * r->down + r->up - 1) / r->up : LOBES;
    r->filter = malloc(sizeof(float) * r->up * r->taps);
    r->line = malloc(sizeof(float) * (r->taps - 1 + BLOCK));
    if (!r->filter || !r->line) {
        pl_resampler_free(r);
        errno = ENOMEM;
        return NULL;
    }
    build_filter(r);
    pl_resampler_reset(r);
    return r;
}

void pl_resampler_free(pl_resampler *r)
{
    if (!r)
        return;
    free(r->filter);
    free(r->line);
    free(r);
}

void pl_resampler_reset(pl_resampler *r)
{
    memset(r->line, 0, sizeof(float) * (r->taps - 1));
    r->phase = 0;
}

uint32_t pl_resampler_output_count(const pl_resampler *r, uint32_t count)
{
    uint64_t end = (uint64_t)count * r->up;
    return end > r->phase ? (uint32_t)((end - r->phase + r->down - 1) / r->down) : 0;
}

uint32_t pl_resampler_delay(const pl_resampler *r, uint32_t *up)
{
    *up = r->up;
    return (r->up * r->taps - 1) / 2;
}

/* Four running sums: a single one would wait for each addition. */
static float dot(const float *a, const float *b, uint32_t count)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    for (; k < count; k++)
        s0 += a[k] * b[k];
    return (s0 + s1) + (s2 + s3);
}

static int16_t to_sample(float value)
{
    if (value >= 32767.0f)
        return 32767;
    if (value <= -32768.0f)
        return -32768;
    return (int16_t)lrintf(value);
}

static uint32_t process_block(pl_resampler *r, const int16_t *in, uint32_t count, int16_t *out)
{
    uint32_t made = 0, history = r->taps - 1;
    for (uint32_t i = 0; i < count; i++)
        r->line[history + i] = in[i];
    uint32_t position = r->phase, end = count * r->up;
    for (; position < end; position += r->down)
        out[made++] = to_sample(dot(r->filter + position % r->up * r->taps, r->line + position / r->up, r->taps));
    r->phase = position - end;
    memmove(r->line, r->line + count, sizeof(float) * history);
    return made;
}

uint32_t pl_resampler_process(pl_resampler *r, const int16_t *in, uint32_t count, int16_t *out)
{
    uint32_t made = 0;
    for (uint32_t done = 0; done < count;) {
        uint32_t size = count - done < BLOCK ? count - done : BLOCK;
        made += process_block(r, in + done, size, out + made);
        done += size;
    }
    return made;
}
