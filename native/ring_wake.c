/* Arming, waking and waiting; clear and close, which wake too. */
#define _GNU_SOURCE
#include "clock.h"
#include "ring_layout.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

void pl_event_consume(int event_fd)
{
    uint64_t count; /* one read empties an event descriptor; a second would only cost a call */
    ssize_t got = read(event_fd, &count, sizeof count);
    (void)got;
}

/* Wake first, then disarm exactly that ticket: death in between costs one spurious wake, never a lost one. */
static void wake(pl_ring *ring, _Atomic uint32_t *armed, uint32_t ticket, int event_fd)
{
    uint64_t one = 1;
    ssize_t put = write(event_fd, &one, sizeof one); /* fails only when 2^64 - 2 wakes are unread: readable anyway */
    (void)put;
    atomic_fetch_add_explicit(&ring->shared->wakes, 1, memory_order_relaxed);
    atomic_compare_exchange_strong(armed, &ticket, 0);
}

void pl_notify_data(pl_ring *ring)
{
    atomic_thread_fence(memory_order_seq_cst); /* our publication before their armed word: one of us sees the other */
    uint32_t ticket = PL_LOAD(ring->shared->data_armed);
    if (__builtin_expect(ticket != 0, 0))
        wake(ring, &ring->shared->data_armed, ticket, ring->data_fd);
}

void pl_notify_space(pl_ring *ring)
{
    pl_shared *shared = ring->shared;
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t ticket = PL_ACQUIRE(shared->space_armed); /* acquire: the need was stored before it */
    if (__builtin_expect(ticket == 0, 1))
        return;
    pl_counters in, out;
    uint32_t need = PL_LOAD(shared->space_need);
    uint64_t head, tail;
    int sure = pl_snapshot(&shared->head, shared->produced, &head, &in) &&
               pl_snapshot(&shared->tail, shared->consumed, &tail, &out);
    if (!sure || (ring->capacity - (head - tail) >= pl_record_bytes(need) &&
                  PL_LOAD(in.bytes) - PL_LOAD(out.bytes) - PL_LOAD(out.dropped_bytes) + need <= PL_LOAD(shared->max_bytes)))
        wake(ring, &shared->space_armed, ticket, ring->space_fd);
}

/* Tickets are counted in the shared memory, so that a waker that slept through its consumer's death and succession
 * cannot disarm the successor. 0 means "not armed". */
static uint32_t new_ticket(_Atomic uint32_t *counter)
{
    uint32_t ticket;
    do
        ticket = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) + 1;
    while (ticket == 0);
    return ticket;
}

int pl_ring_arm_data(pl_ring *ring)
{
    pl_shared *shared = ring->shared;
    atomic_store(&shared->data_armed, new_ticket(&shared->data_ticket));
    atomic_thread_fence(memory_order_seq_cst); /* armed first, then look again: the mirror image of notify */
    if (PL_POSITION(PL_ACQUIRE(shared->head)) == ring->tail && !PL_ACQUIRE(shared->closed))
        return 0;
    PL_STORE(shared->data_armed, 0);
    return 1;
}

int pl_ring_arm_space(pl_ring *ring, uint32_t bytes)
{
    pl_shared *shared = ring->shared;
    PL_STORE(shared->space_need, bytes);
    atomic_store(&shared->space_armed, new_ticket(&shared->space_ticket));
    atomic_thread_fence(memory_order_seq_cst);
    if (!pl_has_room(ring, bytes) && !PL_ACQUIRE(shared->closed))
        return 0;
    PL_STORE(shared->space_armed, 0);
    return 1;
}

static int wait_event(pl_ring *ring, int event_fd, int64_t deadline_us)
{
    struct pollfd watched[2] = {{event_fd, POLLIN, 0}, {ring->peer_pidfd, POLLIN, 0}};
    uint64_t now = pl_monotonic_us();
    uint64_t left = deadline_us > (int64_t)now ? (uint64_t)deadline_us - now : 0;
    struct timespec timeout = pl_timespec(left);
    int ready = ppoll(watched, 2, deadline_us == PL_NEVER ? NULL : &timeout, NULL);
    if (ready < 0)
        return errno == EINTR ? PL_INTERRUPTED : PL_TIMED_OUT;
    if (watched[0].revents & POLLIN) {
        pl_event_consume(event_fd);
        return PL_OK;
    }
    return watched[1].revents & POLLIN ? PL_PEER_DIED : PL_TIMED_OUT;
}

int pl_ring_wait_data(pl_ring *ring, int64_t deadline_us)
{
    return pl_ring_arm_data(ring) ? PL_OK : wait_event(ring, ring->data_fd, deadline_us);
}

int pl_ring_wait_space(pl_ring *ring, uint32_t bytes, int64_t deadline_us)
{
    return pl_ring_arm_space(ring, bytes) ? PL_OK : wait_event(ring, ring->space_fd, deadline_us);
}

uint32_t pl_ring_receive(pl_ring *ring, void *data, uint32_t capacity, pl_frame *frames, uint32_t max_frames,
                         int64_t deadline_us, int *verdict)
{
    for (;;) {
        uint32_t count = pl_ring_read(ring, data, capacity, frames, max_frames, verdict);
        if (count || *verdict != PL_EMPTY)
            return count;
        int waited = pl_ring_wait_data(ring, deadline_us);
        if (waited != PL_OK) { /* what arrived together with the end of the wait still counts */
            count = pl_ring_read(ring, data, capacity, frames, max_frames, verdict);
            if (!count && *verdict == PL_EMPTY)
                *verdict = waited;
            return count;
        }
    }
}

uint64_t pl_ring_clear(pl_ring *ring, uint64_t epoch)
{
    uint64_t current = atomic_load(&ring->shared->epoch);
    while (current < epoch && !atomic_compare_exchange_weak(&ring->shared->epoch, &current, epoch))
        ;
    pl_notify_data(ring);
    return current < epoch ? epoch : current;
}

uint64_t pl_ring_epoch(const pl_ring *ring)
{
    return PL_ACQUIRE(ring->shared->epoch);
}

void pl_ring_close(pl_ring *ring)
{
    pl_shared *shared = ring->shared;
    atomic_store(&shared->closed, 1);
    pl_notify_data(ring);
    uint32_t ticket = PL_LOAD(shared->space_armed);
    if (ticket)
        wake(ring, &shared->space_armed, ticket, ring->space_fd);
}
