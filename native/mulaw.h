/* mu-law (ITU-T G.711) to and from 16-bit PCM, by table. Bit-equal to the reference encoder on the upper 14 bits of a
 * sample, as in CPython's audioop; 0xFF is silence. Any thread. */
#ifndef PL_MULAW_H
#define PL_MULAW_H

#include <stdint.h>

void pl_mulaw_decode(const uint8_t *in, uint32_t count, int16_t *out);
void pl_mulaw_encode(const int16_t *in, uint32_t count, uint8_t *out);

#endif
