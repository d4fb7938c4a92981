/* A pump moves frames from one ring to another on a thread of its own: the whole inner loop of a pipeline.
 *
 * It is the consumer of `source` and the producer of `sink` (both roles claimed by the caller) and copies straight from
 * ring to ring, so that it never holds audio of its own: what the sink does not take stays in the source, under the
 * source's bounds. Every frame that leaves the source is either written to the sink once or counted in exactly one
 * event.
 *
 * Threads. pl_pump_run runs on one thread, which Python enters without its interpreter lock. Commands may come from any
 * thread; they only store their wish and wake the pump, and are acknowledged by events. pl_pump_next_event belongs to
 * one thread. Counters may be read by any.
 *
 * A new pump is held: it forwards nothing until pl_pump_go.
 */
#ifndef PL_PUMP_H
#define PL_PUMP_H

#include "ring.h"

enum pl_pump_event_kind {
    PL_PUMP_STARTED = 1,    /* forwarding from now on; loss: what the startup drain dropped */
    PL_PUMP_CLEARED = 2,    /* `epoch` is in force in both rings; loss: older frames dropped on this side of the sink */
    PL_PUMP_SUPPRESSED = 3, /* what arrives is thrown away from now on */
    PL_PUMP_RESUMED = 4,    /* forwarding again; loss: everything thrown away meanwhile, the last drain included */
    PL_PUMP_DISCARDED = 5,  /* loss that belongs to no acknowledgment; cause says why */
    PL_PUMP_PEER_DIED = 6,  /* cause: which side's process; the pump goes on until told to stop */
    PL_PUMP_PRESSED = 7,    /* `command`: bytes that wait in the source while the sink has taken nothing for a while */
    PL_PUMP_STOPPED = 8     /* last event; cause says why */
};

enum pl_pump_cause {
    PL_CAUSE_NONE = 0,
    PL_CAUSE_STARTUP = 1,       /* startup drain */
    PL_CAUSE_STALE_EPOCH = 2,   /* a ring's epoch was raised without a clear of this pump */
    PL_CAUSE_SUPPRESSED = 3,    /* stopped while suppressed */
    PL_CAUSE_ASKED = 4,         /* pl_pump_stop */
    PL_CAUSE_BACKPRESSURE = 5,  /* the sink had no room for backpressure_us */
    PL_CAUSE_SOURCE_CLOSED = 6, /* and drained */
    PL_CAUSE_SINK_CLOSED = 7,
    PL_CAUSE_SOURCE_PEER = 8,
    PL_CAUSE_SINK_PEER = 9,
    PL_CAUSE_CORRUPT = 10       /* the source holds a record that is not one of ours */
};

typedef struct {
    uint32_t kind, cause;
    uint64_t command; /* SUPPRESSED, RESUMED: number of the newest command this answers */
    uint64_t epoch;   /* CLEARED: the epoch acknowledged; others: the sink's epoch at the time */
    uint64_t frames, bytes, duration_us, at_us;
} pl_pump_event;

typedef struct {
    uint64_t bytes_per_second; /* media rate; 0: no pacing, frames go as they come */
    uint64_t slack_us;         /* paced: how far behind its schedule the pump may be and still catch up; a longer pause
                                  starts a new schedule */
    uint64_t catch_up_us; /* paced: a frame that has waited this long in the source goes after half the time of the one
                             before it, so that a backlog drains at up to twice media rate; 0: never */
    uint64_t poll_us;          /* longest sleep, should a hint get lost */
    uint64_t backpressure_us;  /* longest time without room in the sink */
    uint64_t pressed_us;       /* report pressure when the sink has had no room for this long; 0: never */
    uint32_t turn_frames;      /* most frames between two looks at the commands */
    int source_pidfd, sink_pidfd; /* processes at the other ends, or -1; they stay the caller's */
} pl_pump_config;

typedef struct {
    uint64_t frames, bytes, duration_us, last_at_us; /* forwarded */
    uint64_t late_max_us; /* paced: furthest behind schedule within a stretch of speech */
    uint64_t wakes;       /* sleeps that ended */
    uint64_t turns;       /* turns that forwarded something, at most turn_frames each */
    uint64_t epoch;       /* newest acknowledged clear */
    uint32_t forwarding, suppressed, realtime, finished;
} pl_pump_health;

typedef struct pl_pump pl_pump;

/* NULL with errno EINVAL if a bound is 0 or the sink takes smaller frames than the source, or the system's reason. */
pl_pump *pl_pump_new(const pl_pump_config *config, pl_ring *source, pl_ring *sink);

/* The pump must have finished, or never run. The rings stay the caller's. */
void pl_pump_free(pl_pump *pump);

/* Runs until stopped; returns the cause. Blocks all signals of the thread and asks for SCHED_FIFO 1 meanwhile. */
int pl_pump_run(pl_pump *pump);

/* Starts forwarding; with `drain` it first drops what the source holds at that moment. A second call does nothing. */
void pl_pump_go(pl_pump *pump, int drain);

/* Throw away what arrives (1) or forward (0). Returns the command's number; a later command answers earlier ones. */
uint64_t pl_pump_suppress(pl_pump *pump, int on);

/* Raises both rings to at least `epoch` at once, from the caller's thread; the pump then drops and acknowledges. */
void pl_pump_clear(pl_pump *pump, uint64_t epoch);

void pl_pump_stop(pl_pump *pump);

/* Becomes readable when there is an event. */
int pl_pump_event_fd(const pl_pump *pump);

/* 1 and the oldest event, or 0. Nothing is ever lost: events beyond the array's 64 are merged by kind. */
int pl_pump_next_event(pl_pump *pump, pl_pump_event *event);

void pl_pump_get_health(const pl_pump *pump, pl_pump_health *health);

#endif
