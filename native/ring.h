/* A frame ring: one producer process, one consumer process, any number of observers, in one memfd.
 *
 * Who may call what. A `pl_ring` is one process's handle. Its producer functions belong to one thread at a time, its
 * consumer functions to one thread at a time (the two may be different threads, for they touch different fields);
 * observer functions may be called from any thread of any process that has attached the ring.
 *
 * A frame goes in whole or not at all. Every frame carries the epoch it was written under; a clear raises the ring's
 * epoch, after which older frames are never read, wherever they are. What is discarded is counted.
 *
 * Why a process may die at any instruction: see ring_layout.h.
 */
#ifndef PL_RING_H
#define PL_RING_H

#include <stdint.h>

/* Verdicts. 0 is success; the names are those of parlora.audio.ring.Verdict. */
enum pl_verdict {
    PL_OK = 0,
    PL_EMPTY = 1,        /* consumer: nothing to read */
    PL_FULL = 2,         /* producer: the byte bound or the mapped memory has no room */
    PL_TOO_OLD = 3,      /* producer: the oldest queued frame has been queued longer than the age bound */
    PL_STALE_EPOCH = 4,  /* producer: written under an epoch that a clear has ended; consumer: see pl_ring_commit */
    PL_TOO_BIG = 5,      /* producer: empty, or longer than max_frame_bytes */
    PL_CLOSED = 6,       /* producer: the ring is closed; consumer: closed and drained */
    PL_TIMED_OUT = 7,    /* wait: the deadline passed */
    PL_PEER_DIED = 8,    /* wait: the watched peer process is gone */
    PL_INTERRUPTED = 9,  /* wait: a signal arrived; call again */
    PL_BUFFER_SMALL = 10, /* consumer: the caller's buffer cannot hold the next frame */
    PL_CORRUPT = 11      /* consumer: the record at the read position is not one of ours */
};

/* Epoch argument of a write: "whatever epoch is in force when the frame is admitted". */
#define PL_EPOCH_CURRENT UINT64_MAX

/* Deadline of a wait that never times out. Tests only: a time-out would hide a lost wake-up. */
#define PL_NEVER INT64_MAX

/* One frame's header, 64 bytes, one cache line; the payload follows it. */
typedef struct {
    uint32_t record_bytes; /* header and payload, rounded up to 64 */
    uint32_t bytes;        /* payload */
    uint64_t sequence;     /* 0, 1, 2, ... in the order of admission */
    uint64_t epoch;
    uint64_t ts_us;        /* when the audio came into being, as the writer says */
    uint64_t admitted_us;  /* when it was written into this ring */
    uint32_t duration_us;
    uint32_t flags;        /* the writer's own, passed through */
    uint64_t reserved[2];
} pl_frame;

/* What a discard threw away. */
typedef struct {
    uint64_t frames, bytes, duration_us;
} pl_loss;

/* Counters as one observer read them; the in/out/dropped groups are each exact at one moment. */
typedef struct {
    uint64_t frames_in, bytes_in, duration_in_us, last_in_us;
    uint64_t frames_out, bytes_out, duration_out_us, last_out_us;
    uint64_t dropped_frames, dropped_bytes, dropped_us;        /* by a clear or a drain, after admission */
    uint64_t queued_frames, queued_bytes, queued_us;
    uint64_t rejected_frames[5], rejected_bytes[5];            /* by reason: index is the verdict - PL_FULL */
    uint64_t epoch, wakes, max_bytes, max_age_us, capacity_bytes;
    uint32_t max_frame_bytes, closed;
    int32_t producer_pid, consumer_pid;                        /* 0: the role is free or held by the caller itself */
} pl_ring_stats;

typedef struct pl_ring pl_ring;

/* --- life ------------------------------------------------------------------------------------------------------- */

/* New ring. At most max_bytes of payload are ever queued; max_age_us 0 means no age bound; 1 <= max_frame_bytes <=
 * max_bytes. The mapped memory holds max_bytes in frames of 127 bytes or more, shorter ones may meet its end first
 * (PL_FULL). NULL with errno on failure. Any thread. */
pl_ring *pl_ring_create(uint64_t max_bytes, uint64_t max_age_us, uint32_t max_frame_bytes);

/* Attaches to a ring made elsewhere and takes over the three descriptors (they stay the caller's on failure). The
 * memory's seals, size, magic, version and limits are checked: NULL with errno EPROTO if they are not a ring's. */
pl_ring *pl_ring_attach(int memory_fd, int data_fd, int space_fd);

/* Unmaps and closes. No thread may be inside another call. Queued frames stay for the other processes. */
void pl_ring_free(pl_ring *ring);

/* memory, data event and space event descriptors. */
void pl_ring_descriptors(const pl_ring *ring, int out[3]);

/* Claims the producer (0) or consumer (1) role for this process and continues where the last holder stopped. The
 * kernel frees the role when the process dies, and also when it closes any other descriptor of the same memory (so no
 * dup of it may be closed while the role is held). 0, or the pid of the holder, or -1 with errno. */
int64_t pl_ring_claim(pl_ring *ring, int consumer);

/* Process whose death ends waits with PL_PEER_DIED: a pidfd that stays the caller's, or -1 for none. */
void pl_ring_watch_peer(pl_ring *ring, int pidfd);

/* Tests: the time that admissions see from now on; 0 goes back to the real clock. */
void pl_ring_set_clock(pl_ring *ring, uint64_t now_us);

/* --- producer ---------------------------------------------------------------------------------------------------- */

/* Admits one frame or rejects it with a verdict; a rejected frame is counted under its verdict. ts_us 0: now. */
int pl_ring_write(pl_ring *ring, const void *data, uint32_t bytes, uint64_t epoch, uint64_t ts_us,
                  uint32_t duration_us, uint32_t flags);

/* Cuts a packet into frames of frame_bytes (the last may be shorter) and admits them in order until one is rejected.
 * duration_us is a full frame's; ts_us is the first frame's. If `whole` is not 0 either all frames fit or none is
 * admitted. Returns how many frames were admitted; *verdict is PL_OK or why the next one was not. Frames that were
 * never offered are not counted. */
uint32_t pl_ring_write_packet(pl_ring *ring, const void *data, uint32_t bytes, uint32_t frame_bytes, uint64_t epoch,
                              uint64_t ts_us, uint32_t duration_us, uint32_t flags, int whole, int *verdict);

/* Room to write `bytes` of payload in place, or NULL and a verdict; then publish. The epoch is checked at both. */
void *pl_ring_reserve(pl_ring *ring, uint32_t bytes, uint64_t epoch, int *verdict);
int pl_ring_publish(pl_ring *ring, uint32_t bytes, uint64_t epoch, uint64_t ts_us, uint32_t duration_us,
                    uint32_t flags);

/* Bounds from the next frame on: at most max_bytes of payload queued, from max_frame_bytes to what the ring was created
 * with, and max_age_us (0: none). What is queued already stays. 0 or -EINVAL. */
int pl_ring_set_bounds(pl_ring *ring, uint64_t max_bytes, uint64_t max_age_us);

/* One-shot: 1 if a frame of `bytes` would be admitted now (not armed); 0 if armed, then the space event becomes
 * readable at least once when it may be. */
int pl_ring_arm_space(pl_ring *ring, uint32_t bytes);

/* Waits for that, until deadline_us (absolute). PL_OK, PL_TIMED_OUT, PL_PEER_DIED or PL_INTERRUPTED. */
int pl_ring_wait_space(pl_ring *ring, uint32_t bytes, int64_t deadline_us);

/* --- consumer ---------------------------------------------------------------------------------------------------- */

/* Copies up to max_frames whole frames that together fit into `capacity` bytes; payloads follow each other in `data`.
 * Frames of an ended epoch are dropped and counted. Returns how many; *verdict is PL_OK or why there is no more. */
uint32_t pl_ring_read(pl_ring *ring, void *data, uint32_t capacity, pl_frame *frames, uint32_t max_frames,
                      int *verdict);

/* The same, but waits for the first frame until deadline_us (absolute). */
uint32_t pl_ring_receive(pl_ring *ring, void *data, uint32_t capacity, pl_frame *frames, uint32_t max_frames,
                         int64_t deadline_us, int *verdict);

/* The next frame in place, valid until pl_ring_commit; NULL and a verdict if there is none. */
const void *pl_ring_peek(pl_ring *ring, pl_frame *frame, int *verdict);

/* Ends a peek and consumes the frame. PL_STALE_EPOCH: a clear overtook it, and it was counted as dropped: whatever was
 * made from it must be thrown away. PL_EMPTY: nothing was peeked. */
int pl_ring_commit(pl_ring *ring);

/* Looks at the frames that follow each other without a gap at the front, under one epoch and one flags word, at most
 * max_bytes together; `joined` is the header of the first with the bytes and duration of all. Returns how many; 0 and a
 * verdict if there are none. pl_ring_take then copies and consumes exactly those: PL_OK, or PL_STALE_EPOCH if a clear
 * overtook them, when they are counted as dropped and nothing is copied. */
uint32_t pl_ring_look(pl_ring *ring, uint64_t max_bytes, pl_frame *joined, int *verdict);
int pl_ring_take(pl_ring *ring, void *data, uint32_t frames);

/* Drops the frames at the front that belong to an ended epoch, or all frames queued at the call if `all` is not 0. */
int pl_ring_discard(pl_ring *ring, int all, pl_loss *loss);

/* One-shot: 1 if a frame can be read or the ring is closed (not armed); 0 if armed, then the data event becomes
 * readable at least once after the next frame, clear or close. */
int pl_ring_arm_data(pl_ring *ring);
int pl_ring_wait_data(pl_ring *ring, int64_t deadline_us);

/* --- any process, any thread ------------------------------------------------------------------------------------- */

/* Raises the epoch to at least `epoch` and wakes the consumer so that it drops older frames at once. Returns the
 * epoch in force. */
uint64_t pl_ring_clear(pl_ring *ring, uint64_t epoch);
uint64_t pl_ring_epoch(const pl_ring *ring);

/* No frame is admitted from now on; what is queued can still be read. Wakes both sides. */
void pl_ring_close(pl_ring *ring);

void pl_ring_get_stats(const pl_ring *ring, pl_ring_stats *stats);

/* Makes an event descriptor unreadable again. Call it when a poll reported it, before reading or writing the ring. */
void pl_event_consume(int event_fd);
uint64_t pl_now_us(void);

#endif
