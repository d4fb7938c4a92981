/* Moving frames: one turn of a pump. */
#include "clock.h"
#include "pump_internal.h"

void pl_add_loss(pl_loss *sum, const pl_loss *more)
{
    sum->frames += more->frames;
    sum->bytes += more->bytes;
    sum->duration_us += more->duration_us;
}

int pl_throw_away(pl_pump *pump, int all, pl_loss *loss)
{
    pl_loss dropped;
    int verdict = pl_ring_discard(pump->source, all, &dropped);
    pl_add_loss(loss, &dropped);
    return verdict;
}

/* When the next frame is due. Counted in bytes from the start of the stretch, so that no rounding adds up: a mu-law
 * byte is 125 us, 100 ms of PCM16 at 24 kHz cut into 441-byte frames still ends after 100 ms. */
static uint64_t due_at(const pl_pump *pump)
{
    return pump->start_us + pump->start_bytes * 1000000u / pump->config.bytes_per_second;
}

/* When a frame that has waited too long may go instead, if that is before `due`. A live source gives at media rate, so
 * what a stall has piled up would delay every later frame for the rest of the call. The burst is bounded: such a frame
 * goes when half the time of the one before it has passed. */
static uint64_t hurried(const pl_pump *pump, const pl_frame *frame, uint64_t due)
{
    if (!pump->config.catch_up_us)
        return due;
    uint64_t waited = frame->admitted_us + pump->config.catch_up_us;
    uint64_t spaced = PL_LOAD(pump->last_at_us) + pump->last_bytes * 500000u / pump->config.bytes_per_second;
    uint64_t early = waited > spaced ? waited : spaced;
    return early < due ? early : due;
}

/* 1 if the next frame may go now. A pause longer than the slack starts a new stretch. */
static int is_due(pl_pump *pump, const pl_frame *frame, uint64_t now, uint64_t *due)
{
    if (!pump->config.bytes_per_second)
        return 1;
    uint64_t scheduled = due_at(pump);
    *due = hurried(pump, frame, scheduled);
    if (now < *due)
        return 0;
    if (now < scheduled) { /* catching up: what follows is counted from here */
        pump->start_us -= scheduled - now;
        return 1;
    }
    *due = scheduled;
    uint64_t late = now - *due;
    if (!pump->start_us || late > pump->config.slack_us) {
        pump->start_us = now;
        pump->start_bytes = 0;
    } else if (late > PL_LOAD(pump->late_max_us)) {
        PL_STORE(pump->late_max_us, late);
    }
    return 1;
}

static void note_stale(pl_pump *pump, const pl_frame *frame)
{
    pl_loss one = {1, frame->bytes, frame->duration_us};
    pl_add_loss(&pump->stale, &one);
}

static void count_forwarded(pl_pump *pump, const pl_frame *frame, uint64_t now)
{
    pump->start_bytes += frame->bytes;
    pump->last_bytes = frame->bytes;
    pump->blocked_us = 0;
    PL_STORE(pump->frames, PL_LOAD(pump->frames) + 1);
    PL_STORE(pump->bytes, PL_LOAD(pump->bytes) + frame->bytes);
    PL_STORE(pump->duration_us, PL_LOAD(pump->duration_us) + frame->duration_us);
    PL_STORE(pump->last_at_us, now);
}

/* The frame keeps the epoch the source gave it when it was admitted there. Had it been stamped here, a clear between
 * the look and the stamp would let old audio pass as new; so the sink refuses it, or its reader drops it. An epoch
 * that the source has not reached is a writer's mistake and gets the source's. */
static uint64_t playback_epoch(const pl_pump *pump, const pl_frame *frame)
{
    uint64_t current = pl_ring_epoch(pump->source);
    return frame->epoch < current ? frame->epoch : current;
}

static pl_turn_result over(int cause)
{
    return (pl_turn_result){.end = PL_TURN_OVER, .cause = cause};
}

pl_turn_result pl_forward_turn(pl_pump *pump)
{
    for (uint32_t moved = 0; moved < pump->config.turn_frames; moved++) {
        pl_frame frame;
        int verdict;
        uint64_t due = 0, now = pl_monotonic_us();
        const void *payload = pl_peek_counting(pump->source, &frame, &pump->stale, &verdict);
        if (verdict == PL_CLOSED || verdict == PL_CORRUPT)
            return over(verdict == PL_CLOSED ? PL_CAUSE_SOURCE_CLOSED : PL_CAUSE_CORRUPT);
        if (!payload) {
            pump->blocked_us = 0;
            return (pl_turn_result){.end = PL_TURN_EMPTY};
        }
        if (!is_due(pump, &frame, now, &due))
            return (pl_turn_result){.end = PL_TURN_EARLY, .due_us = due};
        if (PL_ACQUIRE(pump->sink->shared->closed))
            return over(PL_CAUSE_SINK_CLOSED);
        if (!pl_has_room(pump->sink, frame.bytes))
            return (pl_turn_result){.end = PL_TURN_BLOCKED, .need_bytes = frame.bytes};
        verdict = pl_ring_write(pump->sink, payload, frame.bytes, playback_epoch(pump, &frame), frame.ts_us,
                                frame.duration_us, frame.flags);
        if (verdict == PL_CLOSED)
            return over(PL_CAUSE_SINK_CLOSED);
        if (verdict == PL_OK)
            count_forwarded(pump, &frame, now);
        else /* only a clear can have come between; room was there and sizes were checked at the start */
            note_stale(pump, &frame);
        pl_take_peeked(pump->source);
    }
    return (pl_turn_result){.end = PL_TURN_MORE};
}
