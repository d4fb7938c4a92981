/* A pump's inside: shared by pump.c (commands, loop), pump_turn.c (moving frames) and pump_events.c (reports). */
#ifndef PL_PUMP_INTERNAL_H
#define PL_PUMP_INTERNAL_H

#include "pump.h"
#include "ring_layout.h"

#define PL_EVENTS 64u
#define PL_KINDS (PL_PUMP_STOPPED + 1)
#define PL_CAUSES (PL_CAUSE_CORRUPT + 1)

struct pl_pump {
    pl_pump_config config;
    pl_ring *source, *sink;
    int control_fd, event_fd;
    int source_pidfd, sink_pidfd;

    /* Wishes: written by any thread, each a single word. */
    _Atomic uint32_t go;       /* 1: forward, 2: drain first */
    _Atomic uint64_t suppress; /* command number << 1 | on */
    _Atomic uint64_t clear;    /* epoch asked for */
    _Atomic uint32_t stop;

    /* State that other threads may read. */
    _Atomic uint32_t forwarding, suppressed, realtime, finished;
    _Atomic uint64_t frames, bytes, duration_us, last_at_us, late_max_us, wakes, turns, cleared;

    /* The pump thread's own. */
    uint64_t suppress_done;              /* last `suppress` word acted on */
    uint64_t start_us, start_bytes;      /* schedule: byte n of this stretch is due at start + n / rate; 0: none yet */
    uint32_t last_bytes;                 /* of the frame forwarded last */
    uint64_t blocked_us;                 /* since when the sink has had no room; 0: it has */
    uint32_t pressed;                    /* pressure was reported since blocked_us */
    uint64_t stale_us;                   /* since when `stale` holds something */
    pl_loss stale, muted;                /* discarded, not yet reported */
    pl_pump_event owed[PL_KINDS][PL_CAUSES]; /* reported while the array was full; kind 0 marks an empty place */
    uint32_t owed_count;

    /* Events: one producer, one consumer. */
    _Alignas(PL_LINE) _Atomic uint32_t written;
    _Alignas(PL_LINE) _Atomic uint32_t taken;
    pl_pump_event events[PL_EVENTS];
};

/* What one turn of forwarding ended with. */
enum pl_turn {
    PL_TURN_MORE,    /* the turn's frames are used up */
    PL_TURN_EMPTY,   /* nothing in the source */
    PL_TURN_BLOCKED, /* no room in the sink */
    PL_TURN_EARLY,   /* the next frame is not due yet */
    PL_TURN_OVER     /* a ring is closed or broken */
};

typedef struct {
    enum pl_turn end;
    uint32_t need_bytes; /* BLOCKED: the frame that does not fit */
    uint64_t due_us;     /* EARLY */
    int cause;           /* OVER */
} pl_turn_result;

pl_turn_result pl_forward_turn(pl_pump *pump);

/* Throws away what the source holds and adds it to `loss`. PL_OK or PL_CORRUPT. */
int pl_throw_away(pl_pump *pump, int all, pl_loss *loss);
void pl_add_loss(pl_loss *sum, const pl_loss *more);

void pl_report(pl_pump *pump, int kind, int cause, uint64_t command, uint64_t epoch, pl_loss loss);
void pl_flush_owed(pl_pump *pump);

#endif
