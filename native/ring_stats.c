/* What an observer may read while both sides run. */
#define _GNU_SOURCE
#include "ring_layout.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define TRIES 64 /* a side would have to commit twice within each of 64 copies of one cache line */

/* A slot is rewritten only after the commit word has moved on, so an unchanged word proves the copy. */
int pl_snapshot(_Atomic uint64_t *word, pl_counters slots[2], uint64_t *position, pl_counters *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = PL_ACQUIRE(*word);
        *position = PL_POSITION(before);
        pl_counters *slot = &slots[PL_PARITY(before)];
        PL_STORE(out->frames, PL_LOAD(slot->frames));
        PL_STORE(out->bytes, PL_LOAD(slot->bytes));
        PL_STORE(out->duration_us, PL_LOAD(slot->duration_us));
        PL_STORE(out->last_us, PL_LOAD(slot->last_us));
        PL_STORE(out->dropped_frames, PL_LOAD(slot->dropped_frames));
        PL_STORE(out->dropped_bytes, PL_LOAD(slot->dropped_bytes));
        PL_STORE(out->dropped_us, PL_LOAD(slot->dropped_us));
        atomic_thread_fence(memory_order_acquire);
        if (PL_LOAD(*word) == before)
            return 1;
    }
    return 0;
}

/* Pid that holds a role, 0 if nobody does (the kernel does not report the caller's own lock). */
static int32_t holder(const pl_ring *ring, int role)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = role, .l_len = 1};
    if (fcntl(ring->memory_fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid;
}

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void pl_ring_get_stats(const pl_ring *ring, pl_ring_stats *stats)
{
    pl_shared *shared = ring->shared;
    pl_counters in, out;
    uint64_t head, tail;
    int tries = 0, sure;
    memset(stats, 0, sizeof *stats);
    /* An observer preempted between the two sides would see a head far ahead of its old tail: read the tail again. */
    do {
        sure = pl_snapshot(&shared->tail, shared->consumed, &tail, &out) &&
               pl_snapshot(&shared->head, shared->produced, &head, &in);
    } while (!(sure && PL_POSITION(PL_ACQUIRE(shared->tail)) == tail) && ++tries < TRIES);
    stats->frames_in = PL_LOAD(in.frames);
    stats->bytes_in = PL_LOAD(in.bytes);
    stats->duration_in_us = PL_LOAD(in.duration_us);
    stats->last_in_us = PL_LOAD(in.last_us);
    stats->frames_out = PL_LOAD(out.frames);
    stats->bytes_out = PL_LOAD(out.bytes);
    stats->duration_out_us = PL_LOAD(out.duration_us);
    stats->last_out_us = PL_LOAD(out.last_us);
    stats->dropped_frames = PL_LOAD(out.dropped_frames);
    stats->dropped_bytes = PL_LOAD(out.dropped_bytes);
    stats->dropped_us = PL_LOAD(out.dropped_us);
    stats->queued_frames = above(stats->frames_in, stats->frames_out + stats->dropped_frames);
    stats->queued_bytes = above(stats->bytes_in, stats->bytes_out + stats->dropped_bytes);
    stats->queued_us = above(stats->duration_in_us, stats->duration_out_us + stats->dropped_us);
    if (stats->queued_bytes > shared->created_bytes) /* the tries ran out: say no more than can be true */
        stats->queued_bytes = shared->created_bytes;
    for (int i = 0; i < PL_REASONS; i++) {
        stats->rejected_frames[i] = PL_LOAD(shared->rejected_frames[i]);
        stats->rejected_bytes[i] = PL_LOAD(shared->rejected_bytes[i]);
    }
    stats->epoch = PL_ACQUIRE(shared->epoch);
    stats->wakes = PL_LOAD(shared->wakes);
    stats->max_bytes = PL_LOAD(ring->shared->max_bytes);
    stats->max_age_us = PL_LOAD(ring->shared->max_age_us);
    stats->capacity_bytes = ring->capacity;
    stats->max_frame_bytes = ring->max_frame_bytes;
    stats->closed = PL_ACQUIRE(shared->closed);
    stats->producer_pid = holder(ring, 0);
    stats->consumer_pid = holder(ring, 1);
}
