#include "mulaw.h"

#include <pthread.h>

#define BIAS 33    /* of the 14-bit scale */
#define CLIP 8159  /* largest 14-bit magnitude that a segment holds after the bias */

static int16_t decoded[256];
static uint8_t encoded[1 << 14]; /* by the upper 14 bits of the sample: the lower two never matter */
static pthread_once_t built = PTHREAD_ONCE_INIT;

static uint8_t encode_14(int value)
{
    int mask = value < 0 ? 0x7F : 0xFF;
    int magnitude = value < 0 ? -value : value;
    magnitude = (magnitude > CLIP ? CLIP : magnitude) + BIAS;
    int segment = 0;
    while (segment < 8 && magnitude > (0x3F << segment | ((1 << segment) - 1)))
        segment++;
    if (segment == 8) /* the clip itself */
        return (uint8_t)(0x7F ^ mask);
    return (uint8_t)((segment << 4 | (magnitude >> (segment + 1) & 0xF)) ^ mask);
}

static int16_t decode_8(uint8_t code)
{
    int bits = ~code & 0xFF;
    int magnitude = (((bits & 0xF) << 3) + (BIAS << 2)) << (bits >> 4 & 7);
    int value = magnitude - (BIAS << 2);
    return (int16_t)(bits & 0x80 ? -value : value);
}

static void build(void)
{
    for (int code = 0; code < 256; code++)
        decoded[code] = decode_8((uint8_t)code);
    for (int value = -(1 << 13); value < 1 << 13; value++)
        encoded[value & 0x3FFF] = encode_14(value);
}

void pl_mulaw_decode(const uint8_t *in, uint32_t count, int16_t *out)
{
    pthread_once(&built, build);
    for (uint32_t i = 0; i < count; i++)
        out[i] = decoded[in[i]];
}

void pl_mulaw_encode(const int16_t *in, uint32_t count, uint8_t *out)
{
    pthread_once(&built, build);
    for (uint32_t i = 0; i < count; i++)
        out[i] = encoded[(uint16_t)in[i] >> 2];
}
