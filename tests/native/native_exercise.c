/* Every native function once or often, in one process, for the sanitizers: sizes at their edges, wrap-around, refusals,
 * a pump with its thread. Exit 0 if all results are as expected. */
#define _GNU_SOURCE
#include "../../native/mulaw.h"
#include "../../native/process.h"
#include "../../native/pump.h"
#include "../../native/resample.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int failures;
#define EXPECT(condition) \
    ((condition) ? (void)0 : (failures++, (void)fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition)))

static void edges_of_size(void)
{
    pl_ring *ring = pl_ring_create(9600, 0, 4800);
    pl_frame frames[64];
    int verdict;
    for (uint32_t size = 0; size <= 4801; size += size < 300 ? 1 : 331) {
        /* exactly as large as needed, on the heap: reading or writing one byte too far is seen */
        uint8_t *in = malloc(size + 1), *out = malloc(size + 1);
        memset(in, (int)size, size + 1);
        verdict = pl_ring_write(ring, in, size, PL_EPOCH_CURRENT, 0, 0, 0);
        EXPECT(verdict == (size < 1 || size > 4800 ? PL_TOO_BIG : PL_OK));
        if (verdict == PL_OK) {
            EXPECT(pl_ring_read(ring, out, size - 1, frames, 1, &verdict) == 0 && verdict == PL_BUFFER_SMALL);
            EXPECT(pl_ring_read(ring, out, size, frames, 64, &verdict) == 1 && !memcmp(in, out, size));
        }
        free(in);
        free(out);
    }
    pl_ring_free(ring);
}

static void packets_clears_and_waits(void)
{
    pl_ring *ring = pl_ring_create(9600, 100000, 960);
    uint8_t packet[5000] = {1}, out[9600];
    pl_frame frames[64], frame;
    pl_loss loss;
    pl_ring_stats stats;
    int verdict, fds[3];
    for (int round = 0; round < 200; round++) {
        EXPECT(pl_ring_write_packet(ring, packet, 4999, 160, PL_EPOCH_CURRENT, 0, 20000, 0, round & 1, &verdict) == 32);
        EXPECT(pl_ring_write_packet(ring, packet, 5000, 960, PL_EPOCH_CURRENT, 0, 20000, 0, 1, &verdict) == 0);
        EXPECT(verdict == PL_FULL && !pl_ring_arm_space(ring, 9600 - 4999 + 1));
        EXPECT(pl_ring_peek(ring, &frame, &verdict) && frame.bytes == 160);
        if (round % 3 == 0) {
            pl_ring_clear(ring, pl_ring_epoch(ring) + 1);
            EXPECT(pl_ring_commit(ring) == PL_STALE_EPOCH);
            EXPECT(pl_ring_discard(ring, 0, &loss) == PL_OK && loss.frames == 31);
        } else {
            EXPECT(pl_ring_commit(ring) == PL_OK && pl_ring_commit(ring) == PL_EMPTY);
            uint32_t some = pl_ring_look(ring, 1000, &frame, &verdict);
            EXPECT(some == 6 && frame.bytes == 960 && frame.sequence == (uint64_t)round * 32 + 1);
            EXPECT(pl_ring_take(ring, out, some) == PL_OK);
            EXPECT(pl_ring_read(ring, out, sizeof out, frames, 64, &verdict) == 25 && verdict == PL_EMPTY);
        }
        pl_ring_descriptors(ring, fds);
        pl_event_consume(fds[1]); /* the last round's wait timed out armed, and this round's writes woke it */
        EXPECT(pl_ring_wait_data(ring, 1) == PL_TIMED_OUT);
        EXPECT(pl_ring_wait_space(ring, 960, 1) == PL_OK);
        EXPECT(pl_ring_receive(ring, out, sizeof out, frames, 64, 1, &verdict) == 0 && verdict == PL_TIMED_OUT);
    }
    void *room = pl_ring_reserve(ring, 960, 0, &verdict);
    EXPECT(!room && verdict == PL_STALE_EPOCH);
    pl_ring_get_stats(ring, &stats);
    EXPECT(stats.frames_in == 200 * 32 && stats.queued_frames == 0 && stats.rejected_frames[0] == 200 * 6);
    pl_ring_close(ring);
    EXPECT(pl_ring_write(ring, packet, 1, PL_EPOCH_CURRENT, 0, 0, 0) == PL_CLOSED);
    pl_ring_free(ring);
}

static void refusals(void)
{
    EXPECT(!pl_ring_create(0, 0, 1) && errno == EINVAL);
    EXPECT(!pl_ring_create(100, 0, 101) && errno == EINVAL);
    EXPECT(!pl_ring_create(UINT64_MAX, 0, 1) && errno == EINVAL);
    int memory = memfd_create("other", MFD_ALLOW_SEALING);
    EXPECT(!pl_ring_attach(memory, memory, memory) && errno == EPROTO);
    close(memory);
    EXPECT(!pl_ring_attach(memory, memory, memory) && errno == EBADF);
}

/* A record that is not one of ours ends reading; nothing is read beyond it. */
static void corruption(void)
{
    pl_ring *ring = pl_ring_create(9600, 0, 960);
    uint8_t data[960] = {0}, out[9600];
    pl_frame frames[4];
    int verdict, fds[3];
    EXPECT(pl_ring_write(ring, data, 960, 0, 0, 0, 0) == PL_OK);
    pl_ring_descriptors(ring, fds);
    pl_frame *record = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    record = (pl_frame *)((uint8_t *)record + 4096);
    uint32_t wrong[] = {0, 961, 2000, UINT32_MAX, UINT32_MAX - 100};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        record->bytes = wrong[i];
        EXPECT(pl_ring_read(ring, out, sizeof out, frames, 4, &verdict) == 0 && verdict == PL_CORRUPT);
    }
    munmap((uint8_t *)record - 4096, 8192);
    pl_ring_free(ring);
}

static void *run_pump(void *pump)
{
    return (void *)(intptr_t)pl_pump_run(pump);
}

static void pump_with_commands(void)
{
    pl_ring *source = pl_ring_create(96000, 0, 960), *sink = pl_ring_create(9600, 0, 960);
    pl_pump_config config = {.poll_us = 1000, .backpressure_us = 5000000, .turn_frames = 20, .source_pidfd = -1,
                             .sink_pidfd = -1};
    pl_pump *pump = pl_pump_new(&config, source, sink);
    uint8_t data[960] = {0}, out[9600];
    pl_frame frames[64];
    pl_pump_event event;
    pthread_t thread;
    uint64_t sent = 0, lost = 0;
    int verdict;
    pthread_create(&thread, NULL, run_pump, pump);
    pl_pump_go(pump, 1);
    for (uint64_t i = 0; i < 3000; i++) {
        sent += pl_ring_write(source, data, 1 + i % 960, PL_EPOCH_CURRENT, 0, 1, 0) == PL_OK;
        if (i % 17 == 0)
            pl_pump_suppress(pump, i & 1);
        if (i % 29 == 0)
            pl_pump_clear(pump, i);
        pl_ring_read(sink, out, sizeof out, frames, 64, &verdict);
    }
    pl_pump_stop(pump);
    pthread_join(thread, NULL);
    while (pl_pump_next_event(pump, &event))
        lost += event.frames;
    EXPECT(event.kind == PL_PUMP_STOPPED);
    pl_pump_health health;
    pl_ring_stats stats;
    pl_pump_get_health(pump, &health);
    pl_ring_get_stats(source, &stats);
    EXPECT(health.finished && sent == health.frames + lost + stats.queued_frames);
    config.turn_frames = 0;
    EXPECT(!pl_pump_new(&config, source, sink) && errno == EINVAL);
    pl_pump_free(pump);
    pl_ring_free(source);
    pl_ring_free(sink);
}

static void codecs(void)
{
    int16_t every[256];
    uint8_t codes[256], back[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    pl_mulaw_decode(codes, 256, every);
    pl_mulaw_encode(every, 256, back);
    codes[0x7F] = 0xFF; /* minus zero */
    EXPECT(!memcmp(codes, back, 256));
    static const uint32_t rates[] = {8000, 16000, 22050, 24000, 44100, 48000};
    for (unsigned a = 0; a < 6; a++)
        for (unsigned b = 0; b < 6; b++) {
            pl_resampler *r = pl_resampler_new(rates[a], rates[b]);
            if (!r)
                continue;
            uint32_t total = 0, sizes[] = {0, 1, 2, 959, 5000};
            for (unsigned i = 0; i < 5; i++) {
                uint32_t count = pl_resampler_output_count(r, sizes[i]);
                int16_t *in = malloc(2 * sizes[i] + 1), *out = malloc(2 * count + 1);
                for (uint32_t k = 0; k < sizes[i]; k++)
                    in[k] = k & 64 ? 32767 : -32768;
                EXPECT(pl_resampler_process(r, in, sizes[i], out) == count);
                total += count;
                free(in);
                free(out);
            }
            EXPECT(total == (5962ull * rates[b] + rates[a] - 1) / rates[a]);
            pl_resampler_free(r);
        }
    EXPECT(!pl_resampler_new(24001, 8000) && !pl_resampler_new(0, 8000));
}

static void processes(void)
{
    int keep[] = {0, 1, 2}, extra = dup(1);
    EXPECT(pl_set_child_subreaper() == 0 && pl_reset_fault_signals() == 0 && pl_set_batch_scheduling(10) == 0);
    EXPECT(pl_close_descriptors_except(keep, 3) == 0 && write(extra, "", 0) == -1);
}

int main(void)
{
    edges_of_size();
    packets_clears_and_waits();
    refusals();
    corruption();
    pump_with_commands();
    codecs();
    processes();
    return failures != 0;
}
