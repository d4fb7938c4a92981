/* A pump's reports: a bounded array from the pump thread to Python, and a place for what does not fit. */
#define _GNU_SOURCE
#include "clock.h"
#include "pump_internal.h"

#include <unistd.h>

static int put(pl_pump *pump, const pl_pump_event *event)
{
    uint32_t written = PL_LOAD(pump->written);
    if (written - PL_ACQUIRE(pump->taken) == PL_EVENTS)
        return 0;
    pump->events[written % PL_EVENTS] = *event;
    atomic_store_explicit(&pump->written, written + 1, memory_order_release);
    return 1;
}

static void signal_reader(const pl_pump *pump)
{
    uint64_t one = 1;
    ssize_t put_bytes = write(pump->event_fd, &one, sizeof one);
    (void)put_bytes;
}

/* Kinds ascend to STOPPED, so the last event stays the last. */
static pl_pump_event *first_owed(pl_pump *pump)
{
    for (int kind = 0; pump->owed_count && kind < PL_KINDS; kind++)
        for (int cause = 0; cause < PL_CAUSES; cause++)
            if (pump->owed[kind][cause].kind)
                return &pump->owed[kind][cause];
    return NULL;
}

void pl_flush_owed(pl_pump *pump)
{
    int sent = 0;
    for (pl_pump_event *event; (event = first_owed(pump)) && put(pump, event); sent = 1) {
        event->kind = 0;
        pump->owed_count--;
    }
    if (sent)
        signal_reader(pump);
}

void pl_report(pl_pump *pump, int kind, int cause, uint64_t command, uint64_t epoch, pl_loss loss)
{
    pl_pump_event event = {
        .kind = (uint32_t)kind, .cause = (uint32_t)cause, .command = command, .epoch = epoch, .frames = loss.frames,
        .bytes = loss.bytes, .duration_us = loss.duration_us, .at_us = pl_monotonic_us()};
    pl_flush_owed(pump);
    if (pump->owed_count || !put(pump, &event)) {
        pl_pump_event *place = &pump->owed[kind][cause];
        if (place->kind) { /* the newer number answers the older too; losses add up */
            event.frames += place->frames;
            event.bytes += place->bytes;
            event.duration_us += place->duration_us;
        } else {
            pump->owed_count++;
        }
        *place = event;
    }
    signal_reader(pump);
}

int pl_pump_event_fd(const pl_pump *pump)
{
    return pump->event_fd;
}

int pl_pump_next_event(pl_pump *pump, pl_pump_event *event)
{
    uint32_t taken = PL_LOAD(pump->taken);
    uint32_t finished = PL_ACQUIRE(pump->finished); /* before `written`: a finished pump writes no more */
    if (taken != PL_ACQUIRE(pump->written)) {
        *event = pump->events[taken % PL_EVENTS];
        atomic_store_explicit(&pump->taken, taken + 1, memory_order_release);
        return 1;
    }
    if (!finished || !pump->owed_count)
        return 0;
    pl_pump_event *place = first_owed(pump); /* the pump thread is out: its own places are ours now */
    *event = *place;
    place->kind = 0;
    pump->owed_count--;
    return 1;
}
