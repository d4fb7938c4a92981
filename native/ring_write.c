/* The producer's side of a frame ring. */
#include "ring_layout.h"

#include <errno.h>
#include <string.h>

static int reject(pl_ring *ring, int verdict, uint32_t bytes)
{
    pl_shared *shared = ring->shared; /* only the producer writes these, so no read-modify-write is needed */
    int reason = verdict - PL_FULL;
    PL_STORE(shared->rejected_frames[reason], PL_LOAD(shared->rejected_frames[reason]) + 1);
    PL_STORE(shared->rejected_bytes[reason], PL_LOAD(shared->rejected_bytes[reason]) + bytes);
    return verdict;
}

static void look_at_consumer(pl_ring *ring)
{
    pl_counters gone;
    uint64_t tail;
    if (!pl_snapshot(&ring->shared->tail, ring->shared->consumed, &tail, &gone))
        return; /* the older view is a safe one: it only knows of less room */
    ring->seen_tail = tail;
    ring->seen_bytes_gone = PL_LOAD(gone.bytes) + PL_LOAD(gone.dropped_bytes);
}

static int fits(const pl_ring *ring, uint64_t record_bytes, uint64_t bytes)
{
    return ring->capacity - (ring->head - ring->seen_tail) >= record_bytes &&
           ring->bytes_in - ring->seen_bytes_gone + bytes <= ring->max_bytes;
}

/* Is the oldest frame that the consumer may still read over the age bound? The producer may look at it: nobody else
 * writes records, and it never writes one below the tail it has seen. A cleared frame has no age: it is not audio. */
static int too_old(pl_ring *ring, uint64_t now)
{
    for (int fresh = 0; ring->head != ring->seen_tail; fresh = 1) {
        const pl_frame *oldest = pl_record(ring, ring->seen_tail);
        if (now <= oldest->admitted_us + ring->max_age_us)
            return 0; /* what the consumer has meanwhile moved on to is younger still */
        if (fresh)
            return oldest->epoch >= PL_ACQUIRE(ring->shared->epoch);
        look_at_consumer(ring);
    }
    return 0;
}

/* Bounds only; PL_OK, PL_FULL or PL_TOO_OLD. */
static int check_bounds(pl_ring *ring, uint64_t record_bytes, uint64_t bytes)
{
    if (!fits(ring, record_bytes, bytes)) {
        look_at_consumer(ring);
        if (!fits(ring, record_bytes, bytes))
            return PL_FULL;
    }
    if (ring->max_age_us && ring->head != ring->seen_tail && too_old(ring, pl_ring_time(ring)))
        return PL_TOO_OLD;
    return PL_OK;
}

int pl_has_room(pl_ring *ring, uint32_t bytes)
{
    return check_bounds(ring, pl_record_bytes(bytes), bytes) == PL_OK;
}

/* PL_OK and the epoch that the frame gets, or the reason against it, counted. */
static int admit(pl_ring *ring, uint32_t bytes, uint64_t *epoch)
{
    if (bytes < 1 || bytes > ring->max_frame_bytes)
        return reject(ring, PL_TOO_BIG, bytes);
    if (PL_ACQUIRE(ring->shared->closed))
        return reject(ring, PL_CLOSED, bytes);
    uint64_t current = PL_ACQUIRE(ring->shared->epoch);
    if (*epoch == PL_EPOCH_CURRENT)
        *epoch = current;
    else if (*epoch < current)
        return reject(ring, PL_STALE_EPOCH, bytes);
    int verdict = check_bounds(ring, pl_record_bytes(bytes), bytes);
    return verdict ? reject(ring, verdict, bytes) : PL_OK;
}

/* The payload lies at head + 64. Fills in the header and the other counter slot; then one store publishes all. */
static void publish(pl_ring *ring, uint32_t bytes, uint64_t epoch, uint64_t ts_us, uint32_t duration_us, uint32_t flags)
{
    pl_shared *shared = ring->shared;
    uint64_t parity = PL_PARITY(PL_LOAD(shared->head));
    pl_counters *valid = &shared->produced[parity], *next = &shared->produced[parity ^ 1];
    pl_frame *record = pl_record(ring, ring->head);
    uint64_t now = pl_ring_time(ring);
    /* An observer that still reads the slot retired by the last commit must be able to see that commit. */
    atomic_thread_fence(memory_order_release);
    *record = (pl_frame){
        .record_bytes = pl_record_bytes(bytes), .bytes = bytes, .sequence = PL_LOAD(valid->frames), .epoch = epoch,
        .ts_us = ts_us ? ts_us : now, .admitted_us = now, .duration_us = duration_us, .flags = flags};
    PL_STORE(next->frames, PL_LOAD(valid->frames) + 1);
    PL_STORE(next->bytes, ring->bytes_in + bytes);
    PL_STORE(next->duration_us, PL_LOAD(valid->duration_us) + duration_us);
    PL_STORE(next->last_us, now);
    ring->bytes_in += bytes;
    ring->head += pl_record_bytes(bytes);
    atomic_store_explicit(&shared->head, ring->head | (parity ^ 1), memory_order_release);
}

static void *payload_at_head(pl_ring *ring)
{
    return pl_record(ring, ring->head) + 1;
}

int pl_ring_write(pl_ring *ring, const void *data, uint32_t bytes, uint64_t epoch, uint64_t ts_us,
                  uint32_t duration_us, uint32_t flags)
{
    int verdict = admit(ring, bytes, &epoch);
    if (verdict)
        return verdict;
    memcpy(payload_at_head(ring), data, bytes);
    publish(ring, bytes, epoch, ts_us, duration_us, flags);
    pl_notify_data(ring);
    return PL_OK;
}

/* Would a whole packet be admitted? Counts every frame of it as rejected if not. */
static int admit_packet(pl_ring *ring, uint32_t bytes, uint32_t frame_bytes, uint64_t epoch)
{
    uint32_t full = bytes / frame_bytes, rest = bytes % frame_bytes;
    uint64_t records = (uint64_t)full * pl_record_bytes(frame_bytes) + (rest ? pl_record_bytes(rest) : 0);
    int verdict = PL_OK;
    if (frame_bytes > ring->max_frame_bytes)
        verdict = PL_TOO_BIG;
    else if (PL_ACQUIRE(ring->shared->closed))
        verdict = PL_CLOSED;
    else if (epoch < PL_ACQUIRE(ring->shared->epoch))
        verdict = PL_STALE_EPOCH;
    else
        verdict = check_bounds(ring, records, bytes);
    if (verdict) {
        for (uint32_t i = 0; i < full; i++)
            reject(ring, verdict, frame_bytes);
        if (rest)
            reject(ring, verdict, rest);
    }
    return verdict;
}

uint32_t pl_ring_write_packet(pl_ring *ring, const void *data, uint32_t bytes, uint32_t frame_bytes, uint64_t epoch,
                              uint64_t ts_us, uint32_t duration_us, uint32_t flags, int whole, int *verdict)
{
    *verdict = frame_bytes ? PL_OK : PL_TOO_BIG;
    if (*verdict == PL_OK && whole)
        *verdict = admit_packet(ring, bytes, frame_bytes, epoch);
    if (*verdict)
        return 0;
    if (epoch == PL_EPOCH_CURRENT)
        epoch = pl_ring_epoch(ring); /* one packet, one epoch: a clear in the middle ends all of it */
    if (!ts_us)
        ts_us = pl_ring_time(ring);
    uint32_t count = 0;
    for (uint32_t offset = 0; offset < bytes; count++) {
        uint32_t size = bytes - offset < frame_bytes ? bytes - offset : frame_bytes;
        *verdict = admit(ring, size, &epoch);
        if (*verdict)
            break;
        memcpy(payload_at_head(ring), (const uint8_t *)data + offset, size);
        uint64_t length_us = (uint64_t)duration_us * size / frame_bytes;
        publish(ring, size, epoch, ts_us, (uint32_t)length_us, flags);
        ts_us += length_us;
        offset += size;
    }
    if (count)
        pl_notify_data(ring); /* once: the consumer takes the packet in one turn */
    return count;
}

void *pl_ring_reserve(pl_ring *ring, uint32_t bytes, uint64_t epoch, int *verdict)
{
    *verdict = admit(ring, bytes, &epoch);
    return *verdict ? NULL : payload_at_head(ring);
}

int pl_ring_publish(pl_ring *ring, uint32_t bytes, uint64_t epoch, uint64_t ts_us, uint32_t duration_us,
                    uint32_t flags)
{
    int verdict = admit(ring, bytes, &epoch);
    if (verdict)
        return verdict;
    publish(ring, bytes, epoch, ts_us, duration_us, flags);
    pl_notify_data(ring);
    return PL_OK;
}

int pl_ring_set_bounds(pl_ring *ring, uint64_t max_bytes, uint64_t max_age_us)
{
    if (max_bytes < ring->max_frame_bytes || max_bytes > ring->shared->created_bytes)
        return -EINVAL;
    ring->max_bytes = max_bytes;
    ring->max_age_us = max_age_us;
    PL_STORE(ring->shared->max_bytes, max_bytes);
    PL_STORE(ring->shared->max_age_us, max_age_us);
    return 0;
}
