/* The consumer's side of a frame ring. */
#include "ring_layout.h"

#include <string.h>

/* Consumes one record: counts it as read or dropped in the other slot, then publishes position and counters at once. */
static void advance(pl_ring *ring, const pl_frame *frame, int dropped)
{
    pl_shared *shared = ring->shared;
    uint64_t parity = PL_PARITY(PL_LOAD(shared->tail));
    pl_counters *valid = &shared->consumed[parity], *next = &shared->consumed[parity ^ 1];
    uint64_t read = !dropped, drop = !!dropped;
    atomic_thread_fence(memory_order_release); /* as in publish(): the last commit first, then the slot it retired */
    PL_STORE(next->frames, PL_LOAD(valid->frames) + read);
    PL_STORE(next->bytes, PL_LOAD(valid->bytes) + read * frame->bytes);
    PL_STORE(next->duration_us, PL_LOAD(valid->duration_us) + read * frame->duration_us);
    PL_STORE(next->last_us, dropped ? PL_LOAD(valid->last_us) : frame->admitted_us);
    PL_STORE(next->dropped_frames, PL_LOAD(valid->dropped_frames) + drop);
    PL_STORE(next->dropped_bytes, PL_LOAD(valid->dropped_bytes) + drop * frame->bytes);
    PL_STORE(next->dropped_us, PL_LOAD(valid->dropped_us) + drop * frame->duration_us);
    ring->tail += frame->record_bytes;
    atomic_store_explicit(&shared->tail, ring->tail | (parity ^ 1), memory_order_release);
}

/* Copies and checks the header of the record at `position`, which lies between tail and seen_head. */
static int header_at(const pl_ring *ring, uint64_t position, pl_frame *frame)
{
    *frame = *pl_record(ring, position); /* checked in the copy, which no peer can change afterwards */
    if (frame->record_bytes != pl_record_bytes(frame->bytes) || frame->record_bytes > ring->seen_head - position ||
        frame->bytes > ring->max_frame_bytes)
        return PL_CORRUPT;
    return PL_OK;
}

/* The header of the record at the tail. PL_OK, PL_EMPTY, PL_CLOSED or PL_CORRUPT. */
static int front(pl_ring *ring, pl_frame *frame)
{
    if (ring->tail == ring->seen_head) {
        uint32_t closed = PL_ACQUIRE(ring->shared->closed); /* first: what was written before the close is read */
        ring->seen_head = PL_POSITION(PL_ACQUIRE(ring->shared->head));
        if (ring->tail == ring->seen_head)
            return closed ? PL_CLOSED : PL_EMPTY;
    }
    return header_at(ring, ring->tail, frame);
}

int pl_is_drained(const pl_ring *ring)
{
    return PL_ACQUIRE(ring->shared->closed) && PL_POSITION(PL_ACQUIRE(ring->shared->head)) == ring->tail;
}

static int is_stale(const pl_ring *ring, const pl_frame *frame)
{
    return frame->epoch < PL_ACQUIRE(ring->shared->epoch);
}

/* The first frame of a living epoch; older ones before it are dropped and added to `loss` if given. */
static int next_frame(pl_ring *ring, pl_frame *frame, pl_loss *loss)
{
    int dropped = 0, verdict;
    while ((verdict = front(ring, frame)) == PL_OK && is_stale(ring, frame)) {
        advance(ring, frame, 1);
        dropped = 1;
        if (loss) {
            loss->frames++;
            loss->bytes += frame->bytes;
            loss->duration_us += frame->duration_us;
        }
    }
    if (dropped)
        pl_notify_space(ring);
    return verdict;
}

uint32_t pl_ring_read(pl_ring *ring, void *data, uint32_t capacity, pl_frame *frames, uint32_t max_frames,
                      int *verdict)
{
    uint32_t count = 0, used = 0;
    *verdict = PL_OK;
    while (count < max_frames) {
        *verdict = next_frame(ring, &frames[count], NULL);
        if (*verdict)
            break;
        pl_frame *frame = &frames[count];
        if (frame->bytes > capacity - used) {
            *verdict = PL_BUFFER_SMALL;
            break;
        }
        memcpy((uint8_t *)data + used, pl_record(ring, ring->tail) + 1, frame->bytes);
        used += frame->bytes;
        advance(ring, frame, 0);
        count++;
    }
    if (count)
        pl_notify_space(ring);
    return count;
}

const void *pl_peek_counting(pl_ring *ring, pl_frame *frame, pl_loss *loss, int *verdict)
{
    *verdict = next_frame(ring, frame, loss);
    ring->peeked = *verdict == PL_OK;
    return ring->peeked ? pl_record(ring, ring->tail) + 1 : NULL;
}

const void *pl_ring_peek(pl_ring *ring, pl_frame *frame, int *verdict)
{
    return pl_peek_counting(ring, frame, NULL, verdict);
}

void pl_take_peeked(pl_ring *ring)
{
    pl_frame frame;
    if (ring->peeked && front(ring, &frame) == PL_OK) {
        advance(ring, &frame, 0);
        pl_notify_space(ring);
    }
    ring->peeked = 0;
}

int pl_ring_commit(pl_ring *ring)
{
    pl_frame frame;
    if (!ring->peeked)
        return PL_EMPTY;
    ring->peeked = 0;
    if (front(ring, &frame) != PL_OK)
        return PL_CORRUPT;
    int stale = is_stale(ring, &frame);
    advance(ring, &frame, stale);
    pl_notify_space(ring);
    return stale ? PL_STALE_EPOCH : PL_OK;
}

uint32_t pl_ring_look(pl_ring *ring, uint64_t max_bytes, pl_frame *joined, int *verdict)
{
    pl_frame next;
    ring->seen_head = PL_POSITION(PL_ACQUIRE(ring->shared->head)); /* all that is there, not all that was known */
    *verdict = next_frame(ring, joined, NULL);
    if (*verdict)
        return 0;
    if (joined->bytes > max_bytes) {
        *verdict = PL_BUFFER_SMALL;
        return 0;
    }
    uint32_t frames = 1;
    uint64_t position = ring->tail + joined->record_bytes;
    for (; position != ring->seen_head && header_at(ring, position, &next) == PL_OK; position += next.record_bytes) {
        if (next.bytes > max_bytes - joined->bytes || next.epoch != joined->epoch || next.flags != joined->flags ||
            next.sequence != joined->sequence + frames)
            break;
        joined->bytes += next.bytes;
        joined->duration_us += next.duration_us;
        frames++;
    }
    return frames;
}

int pl_ring_take(pl_ring *ring, void *data, uint32_t frames)
{
    int stale = 0;
    uint8_t *to = data;
    for (uint32_t i = 0; i < frames; i++) {
        pl_frame frame;
        if (front(ring, &frame) != PL_OK)
            return PL_CORRUPT;
        if (i == 0)
            stale = is_stale(ring, &frame); /* once: they are consumed as one piece, or dropped as one */
        if (!stale) {
            memcpy(to, pl_record(ring, ring->tail) + 1, frame.bytes);
            to += frame.bytes;
        }
        advance(ring, &frame, stale);
    }
    ring->peeked = 0;
    pl_notify_space(ring);
    return stale ? PL_STALE_EPOCH : PL_OK;
}

int pl_ring_discard(pl_ring *ring, int all, pl_loss *loss)
{
    pl_frame frame;
    *loss = (pl_loss){0};
    ring->peeked = 0;
    if (!all) {
        int verdict = next_frame(ring, &frame, loss);
        return verdict == PL_CORRUPT ? PL_CORRUPT : PL_OK;
    }
    uint64_t end = PL_POSITION(PL_ACQUIRE(ring->shared->head)); /* a fast producer must not keep us here */
    ring->seen_head = end;
    while (ring->tail != end) {
        if (front(ring, &frame) != PL_OK)
            return PL_CORRUPT;
        advance(ring, &frame, 1);
        loss->frames++;
        loss->bytes += frame.bytes;
        loss->duration_us += frame.duration_us;
    }
    if (loss->frames)
        pl_notify_space(ring);
    return PL_OK;
}
