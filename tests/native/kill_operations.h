/* What kill_every_instruction.c interrupts: each operation with what stands before it, and what must hold whatever
 * instruction the process died after. Included once, by that program. */
#ifndef PARLORA_KILL_OPERATIONS_H
#define PARLORA_KILL_OPERATIONS_H

#include "../../native/ring.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRAME = 960, FRAMES = 10, BOUND = FRAME * FRAMES, US = 20000 };

static uint8_t buffer[BOUND];
static pl_frame headers[FRAMES + 1];
static long inconsistencies, not_yet_woken;
static const char *current_op;
static long current_position;

static void expect(int good, const char *what)
{
    if (good)
        return;
    inconsistencies++;
    if (inconsistencies <= 20)
        fprintf(stderr, "%s, killed after %ld instructions: not so: %s\n", current_op, current_position, what);
}
#define EXPECT(condition) expect((condition), #condition)

/* --- helpers of the checks ---------------------------------------------------------------------------------------- */

static int put(pl_ring *ring, char letter, uint64_t epoch)
{
    uint8_t frame[FRAME];
    memset(frame, letter, FRAME);
    return pl_ring_write(ring, frame, FRAME, epoch, 1000, US, 0);
}

static void fill(pl_ring *ring, int count, uint64_t epoch)
{
    for (int i = 0; i < count; i++)
        EXPECT(put(ring, (char)('a' + i), epoch) == PL_OK);
}

static int readable(int fd)
{
    struct pollfd event = {fd, POLLIN, 0};
    return poll(&event, 1, 0) == 1;
}

static int data_fd(pl_ring *ring)
{
    int fds[3];
    pl_ring_descriptors(ring, fds);
    return fds[1];
}

static int space_fd(pl_ring *ring)
{
    int fds[3];
    pl_ring_descriptors(ring, fds);
    return fds[2];
}

/* Reads everything; checks order, whole content and headers. Returns how many. */
static int drain(pl_ring *ring, uint64_t first_sequence)
{
    int verdict, count = (int)pl_ring_read(ring, buffer, sizeof buffer, headers, FRAMES + 1, &verdict);
    for (int i = 0; i < count; i++) {
        EXPECT(headers[i].sequence == first_sequence + (uint64_t)i);
        EXPECT(headers[i].bytes == FRAME && headers[i].duration_us == US && headers[i].ts_us == 1000);
        int same = 1;
        for (int j = 1; j < FRAME; j++)
            same &= buffer[i * FRAME + j] == buffer[i * FRAME];
        EXPECT(same);
    }
    EXPECT(verdict == PL_EMPTY || verdict == PL_CLOSED);
    return count;
}

/* The books balance, and all frames are of the one size. */
static pl_ring_stats audit(pl_ring *ring)
{
    pl_ring_stats s;
    pl_ring_get_stats(ring, &s);
    EXPECT(s.frames_in == s.frames_out + s.dropped_frames + s.queued_frames);
    EXPECT(s.bytes_in == s.frames_in * FRAME && s.duration_in_us == s.frames_in * US);
    EXPECT(s.bytes_out == s.frames_out * FRAME && s.duration_out_us == s.frames_out * US);
    EXPECT(s.dropped_bytes == s.dropped_frames * FRAME && s.dropped_us == s.dropped_frames * US);
    EXPECT(s.queued_bytes == s.queued_frames * FRAME && s.queued_bytes <= BOUND);
    return s;
}

static pl_ring *successor(pl_ring *ring, int consumer)
{
    int fds[3];
    pl_ring_descriptors(ring, fds);
    pl_ring *next = pl_ring_attach(dup(fds[0]), dup(fds[1]), dup(fds[2]));
    EXPECT(next && pl_ring_claim(next, consumer) == 0);
    return next;
}

/* --- the operations: prepare (parent), act (child), check (parent) ------------------------------------------------ */

typedef struct {
    const char *name;
    void (*prepare)(pl_ring *);
    void (*act)(pl_ring *);
    void (*check)(pl_ring *);
} operation;

static uint8_t packet[3 * FRAME];

static void consumer_waits(pl_ring *ring)
{
    fill(ring, 3, 0);
    EXPECT(drain(ring, 0) == 3);
    EXPECT(pl_ring_arm_data(ring) == 0);
}

static void act_write(pl_ring *ring) { put(ring, 'z', 0); }

static void check_write(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    int came = (int)s.queued_frames, woken = readable(data_fd(ring));
    EXPECT(came <= 1);
    EXPECT(came || !woken);
    if (came && !woken)
        not_yet_woken++; /* what the consumer's watch on the writer's pidfd is for */
    pl_ring *next = successor(ring, 0);
    EXPECT(put(next, 'n', PL_EPOCH_CURRENT) == PL_OK);
    EXPECT(readable(data_fd(ring))); /* the consumer that still sleeps was not disarmed by the dead */
    EXPECT(drain(ring, 3) == came + 1);
    int taken = 0;
    while (put(next, 'n', PL_EPOCH_CURRENT) == PL_OK)
        taken++;
    EXPECT(taken == FRAMES);
    EXPECT(drain(ring, 4 + (uint64_t)came) == FRAMES);
    pl_event_consume(data_fd(ring));
    EXPECT(pl_ring_arm_data(ring) == 0);
    EXPECT(put(next, 'n', PL_EPOCH_CURRENT) == PL_OK && readable(data_fd(ring)));
    audit(ring);
    pl_ring_free(next);
}

static void act_write_packet(pl_ring *ring)
{
    int verdict;
    pl_ring_write_packet(ring, packet, sizeof packet, FRAME, 0, 1000, 0, 0, 1, &verdict);
}

/* A packet's frames carry their own times, so only the numbers are checked here. */
static void check_write_packet(pl_ring *ring)
{
    pl_ring_stats s;
    pl_ring_get_stats(ring, &s);
    int verdict, came = (int)s.queued_frames;
    EXPECT(came <= 3 && s.frames_in == 3 + (uint64_t)came && s.bytes_in == s.frames_in * FRAME);
    EXPECT((int)pl_ring_read(ring, buffer, sizeof buffer, headers, FRAMES, &verdict) == came);
    for (int i = 0; i < came; i++)
        EXPECT(headers[i].sequence == 3u + (unsigned)i && !memcmp(buffer + i * FRAME, packet, FRAME));
    pl_ring *next = successor(ring, 0);
    EXPECT(put(next, 'n', 0) == PL_OK && drain(ring, 3 + (uint64_t)came) == 1);
    pl_ring_free(next);
}

static void act_publish(pl_ring *ring)
{
    int verdict;
    void *room = pl_ring_reserve(ring, FRAME, 0, &verdict);
    memset(room, 'z', FRAME);
    pl_ring_publish(ring, FRAME, 0, 1000, US, 0);
}

static void act_refused_write(pl_ring *ring) { put(ring, 'z', 0); }

static void check_refused_write(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    EXPECT(s.queued_frames == FRAMES && s.rejected_frames[0] <= 1);
    pl_ring *next = successor(ring, 0);
    EXPECT(put(next, 'n', 0) == PL_FULL);
    EXPECT(drain(ring, 0) == FRAMES);
    pl_ring_free(next);
}

static void producer_waits(pl_ring *ring)
{
    fill(ring, FRAMES, 0);
    EXPECT(pl_ring_arm_space(ring, FRAME) == 0);
}

static void act_read(pl_ring *ring)
{
    int verdict;
    pl_ring_read(ring, buffer, sizeof buffer, headers, 1, &verdict);
}

static void act_peek_commit(pl_ring *ring)
{
    int verdict;
    pl_frame frame;
    pl_ring_peek(ring, &frame, &verdict);
    pl_ring_commit(ring);
}

static void check_read(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    int gone = (int)s.frames_out, woken = readable(space_fd(ring));
    EXPECT(gone <= 1 && s.dropped_frames == 0 && (gone || !woken));
    if (gone && !woken)
        not_yet_woken++;
    pl_ring *next = successor(ring, 1);
    act_read(next);
    gone++;
    EXPECT(readable(space_fd(ring))); /* the producer that still sleeps was not disarmed by the dead */
    pl_event_consume(space_fd(ring));
    for (int i = 0; i < gone; i++)
        EXPECT(put(ring, 'y', 0) == PL_OK);
    EXPECT(put(ring, 'y', 0) == PL_FULL && pl_ring_arm_space(ring, FRAME) == 0);
    EXPECT(drain(next, (uint64_t)gone) == FRAMES && readable(space_fd(ring)));
    audit(ring);
    pl_ring_free(next);
}

static void act_take(pl_ring *ring)
{
    int verdict;
    pl_frame joined;
    pl_ring_take(ring, buffer, pl_ring_look(ring, 3 * FRAME, &joined, &verdict));
}

static void check_take(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    EXPECT(s.frames_out <= 3 && s.dropped_frames == 0);
    pl_ring *next = successor(ring, 1);
    EXPECT(drain(next, s.frames_out) == FRAMES - (int)s.frames_out);
    EXPECT(s.frames_out == 0 || put(ring, 'y', 0) == PL_OK);
    pl_ring_free(next);
}

static void cleared_behind(pl_ring *ring)
{
    fill(ring, 5, 0);
    pl_ring_clear(ring, 1);
    fill(ring, 2, 1);
}

static void check_stale_read(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    EXPECT(s.dropped_frames <= 5 && s.frames_out <= 1 && (s.frames_out == 0 || s.dropped_frames == 5));
    pl_ring *next = successor(ring, 1);
    EXPECT(drain(next, 5 + s.frames_out) == 2 - (int)s.frames_out);
    EXPECT(audit(ring).dropped_frames == 5);
    pl_ring_free(next);
}

static void five_frames(pl_ring *ring) { fill(ring, 5, 0); }

static void act_discard(pl_ring *ring)
{
    pl_loss loss;
    pl_ring_discard(ring, 1, &loss);
}

static void check_discard(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    EXPECT(s.dropped_frames <= 5 && s.frames_out == 0);
    pl_ring *next = successor(ring, 1);
    EXPECT(drain(next, s.dropped_frames) == 5 - (int)s.dropped_frames);
    pl_ring_free(next);
}

static void act_clear(pl_ring *ring) { pl_ring_clear(ring, 1); }

static void waits_with_frames_behind(pl_ring *ring)
{
    consumer_waits(ring);
    fill(ring, 2, 0); /* wakes; the consumer looks, arms nothing, and both frames are still there when the clear comes */
    pl_event_consume(data_fd(ring));
}

static void check_clear(pl_ring *ring)
{
    uint64_t epoch = pl_ring_epoch(ring);
    EXPECT(epoch <= 1);
    EXPECT(put(ring, 'l', 0) == (epoch ? PL_STALE_EPOCH : PL_OK));
    EXPECT(drain(ring, 3) == (epoch ? 0 : 3));
    EXPECT(audit(ring).dropped_frames == (epoch ? 2 : 0));
    EXPECT(pl_ring_clear(ring, 1) == 1 && put(ring, 'n', 1) == PL_OK);
    EXPECT(drain(ring, epoch ? 5 : 6) == 1);
}

static void check_clear_wakes(pl_ring *ring)
{
    uint64_t epoch = pl_ring_epoch(ring);
    if (epoch && !readable(data_fd(ring)))
        not_yet_woken++;
    EXPECT(pl_ring_clear(ring, 1) == 1 && readable(data_fd(ring)));
}

static void nothing(pl_ring *ring) { (void)ring; }

static void act_arm_data(pl_ring *ring) { pl_ring_arm_data(ring); }

static void check_arm_data(pl_ring *ring)
{
    EXPECT(put(ring, 'n', 0) == PL_OK);
    pl_ring *next = successor(ring, 1);
    EXPECT(pl_ring_wait_data(next, PL_NEVER) == PL_OK && drain(next, 0) == 1);
    pl_event_consume(data_fd(ring));
    EXPECT(pl_ring_arm_data(next) == 0);
    EXPECT(put(ring, 'n', 0) == PL_OK && readable(data_fd(ring)));
    pl_ring_free(next);
}

static void full(pl_ring *ring) { fill(ring, FRAMES, 0); }

static void act_arm_space(pl_ring *ring) { pl_ring_arm_space(ring, FRAME); }

static void check_arm_space(pl_ring *ring)
{
    pl_ring *next = successor(ring, 0);
    EXPECT(pl_ring_arm_space(next, FRAME) == 0);
    EXPECT(drain(ring, 0) == FRAMES && readable(space_fd(ring)));
    EXPECT(put(next, 'n', 0) == PL_OK);
    pl_ring_free(next);
}

static void act_close(pl_ring *ring) { pl_ring_close(ring); }

static void check_close(pl_ring *ring)
{
    pl_ring_stats s = audit(ring);
    if (s.closed && !readable(data_fd(ring)))
        not_yet_woken++;
    EXPECT(put(ring, 'n', 0) == (s.closed ? PL_CLOSED : PL_OK));
    EXPECT(drain(ring, 3) == (s.closed ? 0 : 1));
    pl_ring_close(ring);
    EXPECT(readable(data_fd(ring)) && put(ring, 'n', 0) == PL_CLOSED);
}

static const operation operations[] = {
    {"write", consumer_waits, act_write, check_write},
    {"write_packet", consumer_waits, act_write_packet, check_write_packet},
    {"reserve_publish", consumer_waits, act_publish, check_write},
    {"refused_write", full, act_refused_write, check_refused_write},
    {"read", producer_waits, act_read, check_read},
    {"peek_commit", producer_waits, act_peek_commit, check_read},
    {"look_and_take", producer_waits, act_take, check_take},
    {"read_past_a_clear", cleared_behind, act_read, check_stale_read},
    {"discard", five_frames, act_discard, check_discard},
    {"clear", waits_with_frames_behind, act_clear, check_clear},
    {"clear_of_a_waiting_reader", consumer_waits, act_clear, check_clear_wakes},
    {"arm_data", nothing, act_arm_data, check_arm_data},
    {"arm_space", full, act_arm_space, check_arm_space},
    {"close", consumer_waits, act_close, check_close},
};

#endif
