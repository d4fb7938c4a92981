/* Two processes and a third, without a single time-out: a lost wake-up hangs, and the alarm says so.
 *
 *   ring_stress FRAMES CLEARS
 *
 * The writer sends numbered frames of random size and waits for space, the reader checks every byte and waits for data,
 * both without deadline and with random pauses. With CLEARS 1 a third process raises the epoch and reads the counters
 * all the while. Prints one JSON object; exit 0 if nothing was lost, reordered, torn, stale or impossible. */
#define _GNU_SOURCE
#include "../../native/ring.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGEST = 960, ALARM_S = 60 };

static void hung(int signal)
{
    static const char text[] = "HANG: a wake-up was lost\n";
    (void)signal;
    (void)!write(2, text, sizeof text - 1);
    _exit(9);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

static void rest_sometimes(unsigned *state)
{
    unsigned r = next_random(state);
    if (r % 64 == 0)
        usleep(r >> 20);
}

static int writer(pl_ring *ring, long frames)
{
    uint8_t data[LARGEST];
    unsigned random = 1;
    for (long number = 0; number < frames; number++) {
        uint32_t size = 8 + next_random(&random) % (LARGEST - 8);
        memset(data, (int)(number & 0xFF), size);
        memcpy(data, &number, sizeof number);
        int verdict;
        while ((verdict = pl_ring_write(ring, data, size, PL_EPOCH_CURRENT, (uint64_t)number + 1, 20000, 0)) == PL_FULL)
            if (pl_ring_wait_space(ring, size, PL_NEVER) != PL_OK)
                return 2;
        if (verdict != PL_OK)
            return 3;
        rest_sometimes(&random);
    }
    pl_ring_close(ring);
    return 0;
}

static int observer(pl_ring *ring, volatile long *over)
{
    long impossible = 0, snapshots = 0;
    for (uint64_t epoch = 1; !*over; epoch++) {
        pl_ring_clear(ring, epoch);
        for (int i = 0; i < 200 && !*over; i++, snapshots++) {
            pl_ring_stats s;
            pl_ring_get_stats(ring, &s);
            impossible += s.queued_bytes > s.max_bytes || s.frames_in < s.frames_out + s.dropped_frames ||
                          s.frames_in != s.frames_out + s.dropped_frames + s.queued_frames;
            usleep(5);
        }
    }
    over[1] = snapshots;
    return impossible ? 4 : 0;
}

typedef struct {
    long read, wrong, waits;
} tally;

static tally reader(pl_ring *ring)
{
    static uint8_t data[16 * LARGEST];
    pl_frame frames[16];
    tally t = {0};
    long last = -1;
    unsigned random = 7;
    for (;;) {
        uint64_t epoch = pl_ring_epoch(ring);
        int verdict;
        uint32_t offset = 0, limit = 1 + next_random(&random) % 16;
        uint32_t count = pl_ring_receive(ring, data, sizeof data, frames, limit, PL_NEVER, &verdict);
        if (!count && verdict == PL_CLOSED)
            return t;
        t.wrong += !count;
        for (uint32_t i = 0; i < count; i++) {
            long number;
            memcpy(&number, data + offset, sizeof number);
            t.wrong += frames[i].epoch < epoch || number <= last || frames[i].ts_us != (uint64_t)number + 1;
            for (uint32_t j = sizeof number; j < frames[i].bytes; j += 53)
                t.wrong += data[offset + j] != (number & 0xFF);
            offset += frames[i].bytes;
            last = number;
            t.read++;
        }
        rest_sometimes(&random);
    }
}

static int ended_well(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    long frames = argc > 1 ? atol(argv[1]) : 100000;
    int clears = argc > 2 && atoi(argv[2]);
    volatile long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pl_ring *ring = pl_ring_create(8000, 0, LARGEST);
    signal(SIGALRM, hung);
    alarm(ALARM_S);
    pid_t third = 0, producer = fork();
    if (producer == 0) {
        alarm(ALARM_S);
        _exit(pl_ring_claim(ring, 0) ? 1 : writer(ring, frames));
    }
    if (clears && (third = fork()) == 0)
        _exit(observer(ring, shared));
    tally t = pl_ring_claim(ring, 1) ? (tally){.wrong = 1} : reader(ring);
    shared[0] = 1;
    int good = ended_well(producer) && (!third || ended_well(third));
    pl_ring_stats s;
    pl_ring_get_stats(ring, &s);
    good = good && !t.wrong && t.read + (long)s.dropped_frames == frames && s.frames_in == (uint64_t)frames;
    printf("{\"frames\": %ld, \"read\": %ld, \"dropped\": %lu, \"wrong\": %ld, \"wakes\": %lu, \"snapshots\": %ld, "
           "\"ok\": %s}\n",
           frames, t.read, (unsigned long)s.dropped_frames, t.wrong, (unsigned long)s.wakes, shared[1],
           good ? "true" : "false");
    pl_ring_free(ring);
    return !good;
}
