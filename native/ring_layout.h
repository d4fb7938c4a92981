/* The ring's shared memory and one process's view of it. Internal to ring_*.c and the pumps.
 *
 * Why a process may die at any instruction:
 *  1. A side publishes with ONE release store of an aligned 64-bit commit word: byte position (a multiple of 64) plus
 *     a parity bit that says which of its two counter slots is valid. Frame and counters become visible together.
 *  2. Everything else is written outside what the commit word shows: the record beyond the head, the counters in the
 *     other slot. A dead writer leaves no lock taken and no sequence number odd; its successor starts from the word.
 *  3. A waker first wakes and then disarms exactly the ticket it saw: dying in between costs one spurious wake.
 *     Dying before the wake is what pl_ring_watch_peer is for.
 *  4. A clear is one compare-and-swap; a frame that raced past the check is dropped by the consumer, for each frame
 *     carries its epoch.
 * The reject counters are the exception: they may miss the bytes of the one frame whose rejection died half-way.
 */
#ifndef PL_RING_LAYOUT_H
#define PL_RING_LAYOUT_H

#include "ring.h"

#include <stdatomic.h>
#include <stddef.h>

#define PL_RING_MAGIC 0x31474e524c524150ull /* "PARLRNG1" */
#define PL_RING_VERSION 1u
#define PL_HEADER_BYTES 4096u
#define PL_LINE 64u
#define PL_REASONS (PL_CLOSED - PL_FULL + 1)

#define PL_POSITION(word) ((word) & ~(uint64_t)(PL_LINE - 1))
#define PL_PARITY(word) ((word) & 1u)

/* Counter slots: atomic so that an observer's read of a slot being rewritten is defined; relaxed, so plain moves. */
typedef struct {
    _Atomic uint64_t frames, bytes, duration_us, last_us;         /* admitted by the producer, or read by the consumer */
    _Atomic uint64_t dropped_frames, dropped_bytes, dropped_us;   /* consumer only */
    _Atomic uint64_t reserved;
} pl_counters;

typedef struct {
    /* Constant after creation. */
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t capacity, created_bytes;
    uint32_t max_frame_bytes, reserved;
    /* Set at creation; the producer may tighten them. The other side only judges by them whether a wake is worth it. */
    _Atomic uint64_t max_bytes, max_age_us;
    /* Each of the following owns its cache lines, so that one side's stores never slow the other's loads. */
    _Alignas(PL_LINE) _Atomic uint64_t head;
    _Alignas(PL_LINE) pl_counters produced[2];
    _Alignas(PL_LINE) _Atomic uint64_t tail;
    _Alignas(PL_LINE) pl_counters consumed[2];
    _Alignas(PL_LINE) _Atomic uint64_t epoch;
    _Alignas(PL_LINE) _Atomic uint32_t data_armed;
    _Atomic uint32_t data_ticket;
    _Alignas(PL_LINE) _Atomic uint32_t space_armed;
    _Atomic uint32_t space_ticket, space_need;
    _Alignas(PL_LINE) _Atomic uint64_t rejected_frames[PL_REASONS];
    _Atomic uint64_t rejected_bytes[PL_REASONS];
    _Atomic uint64_t wakes;
    _Alignas(PL_LINE) _Atomic uint32_t closed;
} pl_shared;

struct pl_ring {
    pl_shared *shared;
    uint8_t *data; /* capacity bytes, mapped twice in a row: no record ever wraps */
    uint64_t capacity, mask, max_bytes, max_age_us;
    uint32_t max_frame_bytes;
    int memory_fd, data_fd, space_fd, peer_pidfd;
    uint64_t clock_us;
    /* The producer's own: its position and bytes, and the consumer's as last seen (never ahead of the truth). */
    _Alignas(PL_LINE) uint64_t head;
    uint64_t bytes_in, seen_tail, seen_bytes_gone;
    /* The consumer's own. */
    _Alignas(PL_LINE) uint64_t tail;
    uint64_t seen_head;
    uint32_t peeked;
};

#define PL_LOAD(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define PL_STORE(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define PL_ACQUIRE(field) atomic_load_explicit(&(field), memory_order_acquire)

static inline uint32_t pl_record_bytes(uint32_t payload)
{
    return (payload + (uint32_t)sizeof(pl_frame) + PL_LINE - 1) & ~(PL_LINE - 1);
}

static inline pl_frame *pl_record(const pl_ring *ring, uint64_t position)
{
    return (pl_frame *)(ring->data + (position & ring->mask));
}

/* One (position, counters) pair of a side. 1 if it is consistent; 0 if the side never held still. See ring_stats.c. */
int pl_snapshot(_Atomic uint64_t *word, pl_counters slots[2], uint64_t *position, pl_counters *out);

/* Wakes the consumer, or the producer if what it waits for fits now, after the caller published its own change. */
void pl_notify_data(pl_ring *ring);
void pl_notify_space(pl_ring *ring);

uint64_t pl_ring_time(const pl_ring *ring);

/* pl_ring_peek that adds the frames it drops on the way to `loss`, if given. */
const void *pl_peek_counting(pl_ring *ring, pl_frame *frame, pl_loss *loss, int *verdict);

/* Ends a peek, counting the frame as read even if a clear overtook it: for who has already passed it on. */
void pl_take_peeked(pl_ring *ring);

/* Consumer: 1 if the ring is closed and everything in it consumed. */
int pl_is_drained(const pl_ring *ring);

/* 1 if a frame of `bytes` would be admitted now, bounds only; refreshes the producer's view of the consumer. */
int pl_has_room(pl_ring *ring, uint32_t bytes);

#endif
