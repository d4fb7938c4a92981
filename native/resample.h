/* Streaming resampler for 16-bit mono: a short polyphase FIR, so that it withholds nothing and delays by 1.5 to 3 ms at
 * telephone and speech rates. One thread at a time per resampler. */
#ifndef PL_RESAMPLE_H
#define PL_RESAMPLE_H

#include <stdint.h>

typedef struct pl_resampler pl_resampler;

/* NULL with errno EINVAL if the rates have no small ratio (reduced numerator and denominator at most 512) or one is
 * more than 8 times the other; ENOMEM. */
pl_resampler *pl_resampler_new(uint32_t source_hz, uint32_t target_hz);
void pl_resampler_free(pl_resampler *resampler);

/* Back to silence, as new. */
void pl_resampler_reset(pl_resampler *resampler);

/* How many samples the next `count` input samples give. */
uint32_t pl_resampler_output_count(const pl_resampler *resampler, uint32_t count);

/* Writes exactly that many to `out`. */
uint32_t pl_resampler_process(pl_resampler *resampler, const int16_t *in, uint32_t count, int16_t *out);

/* The filter's delay, in source samples times `up`; and `up`, the reduced numerator. */
uint32_t pl_resampler_delay(const pl_resampler *resampler, uint32_t *up);

#endif
