/* A pump's life, commands and loop. */
#define _GNU_SOURCE
#include "clock.h"
#include "process.h"
#include "pump_internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Stale frames that no clear of this pump explains are reported by themselves after this long. */
#define STALE_REPORT_US 250000u

pl_pump *pl_pump_new(const pl_pump_config *config, pl_ring *source, pl_ring *sink)
{
    if (!config->turn_frames || !config->poll_us || !config->backpressure_us ||
        source->max_frame_bytes > sink->max_frame_bytes) {
        errno = EINVAL;
        return NULL;
    }
    pl_pump *pump = aligned_alloc(PL_LINE, (sizeof *pump + PL_LINE - 1) / PL_LINE * PL_LINE);
    if (!pump)
        return NULL;
    memset(pump, 0, sizeof *pump);
    pump->config = *config;
    pump->source = source;
    pump->sink = sink;
    pump->source_pidfd = config->source_pidfd;
    pump->sink_pidfd = config->sink_pidfd;
    pump->control_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pump->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (pump->control_fd < 0 || pump->event_fd < 0) {
        int error = errno;
        pl_pump_free(pump);
        errno = error;
        return NULL;
    }
    return pump;
}

void pl_pump_free(pl_pump *pump)
{
    if (!pump)
        return;
    if (pump->control_fd >= 0)
        close(pump->control_fd);
    if (pump->event_fd >= 0)
        close(pump->event_fd);
    free(pump);
}

/* --- commands: any thread ----------------------------------------------------------------------------------------- */

static void wake_pump(pl_pump *pump)
{
    uint64_t one = 1;
    ssize_t put = write(pump->control_fd, &one, sizeof one);
    (void)put;
}

void pl_pump_go(pl_pump *pump, int drain)
{
    uint32_t held = 0;
    atomic_compare_exchange_strong(&pump->go, &held, drain ? 2u : 1u);
    wake_pump(pump);
}

uint64_t pl_pump_suppress(pl_pump *pump, int on)
{
    uint64_t old = atomic_load(&pump->suppress), next;
    do
        next = ((old >> 1) + 1) << 1 | (on != 0);
    while (!atomic_compare_exchange_weak(&pump->suppress, &old, next));
    wake_pump(pump);
    return next >> 1;
}

void pl_pump_clear(pl_pump *pump, uint64_t epoch)
{
    pl_ring_clear(pump->sink, epoch);
    pl_ring_clear(pump->source, epoch);
    uint64_t asked = atomic_load(&pump->clear);
    while (asked < epoch && !atomic_compare_exchange_weak(&pump->clear, &asked, epoch))
        ;
    wake_pump(pump);
}

void pl_pump_stop(pl_pump *pump)
{
    atomic_store(&pump->stop, 1);
    wake_pump(pump);
}

void pl_pump_get_health(const pl_pump *pump, pl_pump_health *health)
{
    *health = (pl_pump_health){
        .frames = PL_LOAD(pump->frames), .bytes = PL_LOAD(pump->bytes), .duration_us = PL_LOAD(pump->duration_us),
        .last_at_us = PL_LOAD(pump->last_at_us), .late_max_us = PL_LOAD(pump->late_max_us),
        .wakes = PL_LOAD(pump->wakes), .turns = PL_LOAD(pump->turns), .epoch = PL_LOAD(pump->cleared),
        .forwarding = PL_LOAD(pump->forwarding), .suppressed = PL_LOAD(pump->suppressed),
        .realtime = PL_LOAD(pump->realtime), .finished = PL_LOAD(pump->finished)};
}

/* --- the pump thread ---------------------------------------------------------------------------------------------- */

static void new_stretch(pl_pump *pump)
{
    pump->start_us = pump->start_bytes = pump->blocked_us = 0;
}

static pl_loss take_loss(pl_loss *from)
{
    pl_loss taken = *from;
    *from = (pl_loss){0};
    return taken;
}

static uint64_t sink_epoch(const pl_pump *pump)
{
    return pl_ring_epoch(pump->sink);
}

static int start_if_told(pl_pump *pump)
{
    pl_loss loss = {0};
    uint32_t go = PL_ACQUIRE(pump->go);
    if (!go || PL_LOAD(pump->forwarding))
        return PL_OK;
    int verdict = go == 2 ? pl_throw_away(pump, 1, &loss) : PL_OK;
    new_stretch(pump);
    PL_STORE(pump->forwarding, 1);
    pl_report(pump, PL_PUMP_STARTED, go == 2 ? PL_CAUSE_STARTUP : PL_CAUSE_NONE, 0, sink_epoch(pump), loss);
    return verdict;
}

static int clear_if_told(pl_pump *pump)
{
    uint64_t asked = PL_ACQUIRE(pump->clear);
    if (asked <= PL_LOAD(pump->cleared))
        return PL_OK;
    int verdict = pl_throw_away(pump, 0, &pump->stale);
    new_stretch(pump);
    PL_STORE(pump->cleared, asked);
    pl_report(pump, PL_PUMP_CLEARED, PL_CAUSE_NONE, 0, asked, take_loss(&pump->stale));
    return verdict;
}

static int suppress_if_told(pl_pump *pump)
{
    uint64_t asked = PL_ACQUIRE(pump->suppress);
    if (asked == pump->suppress_done)
        return PL_OK;
    pump->suppress_done = asked;
    int on = asked & 1, verdict = pl_throw_away(pump, 1, &pump->muted); /* resuming drains once more */
    new_stretch(pump);
    PL_STORE(pump->suppressed, (uint32_t)on);
    if (on)
        pl_report(pump, PL_PUMP_SUPPRESSED, PL_CAUSE_NONE, asked >> 1, sink_epoch(pump), (pl_loss){0});
    else
        pl_report(pump, PL_PUMP_RESUMED, PL_CAUSE_NONE, asked >> 1, sink_epoch(pump), take_loss(&pump->muted));
    return verdict;
}

/* PL_CAUSE_NONE to go on. A clear comes before a start, so that a start can never pass what the clear ended. */
static int obey(pl_pump *pump)
{
    if (PL_ACQUIRE(pump->stop))
        return PL_CAUSE_ASKED;
    if (clear_if_told(pump) || suppress_if_told(pump) || start_if_told(pump))
        return PL_CAUSE_CORRUPT;
    uint64_t now = pl_monotonic_us();
    if (!pump->stale.frames)
        pump->stale_us = 0;
    else if (!pump->stale_us)
        pump->stale_us = now;
    else if (now - pump->stale_us >= STALE_REPORT_US)
        pl_report(pump, PL_PUMP_DISCARDED, PL_CAUSE_STALE_EPOCH, 0, sink_epoch(pump), take_loss(&pump->stale));
    pl_flush_owed(pump);
    return PL_CAUSE_NONE;
}

static void see_peer(pl_pump *pump, int *pidfd, short revents, int cause)
{
    if (!(revents & (POLLIN | POLLERR | POLLNVAL)))
        return;
    *pidfd = -1; /* told once */
    pl_report(pump, PL_PUMP_PEER_DIED, cause, 0, sink_epoch(pump), (pl_loss){0});
}

/* Sleeps until a command, the armed ring event (or -1), a peer's death, or `until_us`. */
static void sleep_until(pl_pump *pump, int ring_fd, uint64_t until_us)
{
    struct pollfd watched[4] = {{pump->control_fd, POLLIN, 0}, {ring_fd, POLLIN, 0},
                                {pump->source_pidfd, POLLIN, 0}, {pump->sink_pidfd, POLLIN, 0}};
    uint64_t now = pl_monotonic_us();
    struct timespec timeout = pl_timespec(until_us > now ? until_us - now : 0);
    int ready = ppoll(watched, 4, &timeout, NULL);
    PL_STORE(pump->wakes, PL_LOAD(pump->wakes) + 1);
    if (ready <= 0)
        return;
    if (watched[0].revents)
        pl_event_consume(pump->control_fd);
    if (watched[1].revents)
        pl_event_consume(ring_fd);
    see_peer(pump, &pump->source_pidfd, watched[2].revents, PL_CAUSE_SOURCE_PEER);
    see_peer(pump, &pump->sink_pidfd, watched[3].revents, PL_CAUSE_SINK_PEER);
}

static void sleep_for_data(pl_pump *pump)
{
    if (!pl_ring_arm_data(pump->source))
        sleep_until(pump, pump->source->data_fd, pl_monotonic_us() + pump->config.poll_us);
}

/* Once for each stretch without room in the sink, and only if enough waits before it: half of what the source may hold,
 * or all that the sink may, whichever is less. This pump retains nothing, so what waits is what the source holds. */
static void report_pressure(pl_pump *pump)
{
    pl_ring_stats source, sink;
    pl_ring_get_stats(pump->source, &source);
    pl_ring_get_stats(pump->sink, &sink);
    uint64_t half = source.max_bytes / 2, threshold = half < sink.max_bytes ? half : sink.max_bytes;
    if (source.queued_bytes < threshold)
        return;
    pump->pressed = 1;
    pl_report(pump, PL_PUMP_PRESSED, PL_CAUSE_NONE, source.queued_bytes, sink_epoch(pump), (pl_loss){0});
}

/* PL_CAUSE_BACKPRESSURE if the sink has had no room for too long. */
static int sleep_for_space(pl_pump *pump, uint32_t bytes)
{
    uint64_t now = pl_monotonic_us();
    if (!pump->blocked_us) {
        pump->blocked_us = now;
        pump->pressed = 0;
    }
    if (pump->config.pressed_us && !pump->pressed && now - pump->blocked_us >= pump->config.pressed_us)
        report_pressure(pump);
    uint64_t deadline = pump->blocked_us + pump->config.backpressure_us;
    if (now >= deadline)
        return PL_CAUSE_BACKPRESSURE;
    if (!pl_ring_arm_space(pump->sink, bytes)) {
        uint64_t poll = now + pump->config.poll_us;
        sleep_until(pump, pump->sink->space_fd, poll < deadline ? poll : deadline);
    }
    return PL_CAUSE_NONE;
}

/* One turn and the sleep after it. PL_CAUSE_NONE to go on. */
static int work(pl_pump *pump)
{
    if (!PL_LOAD(pump->forwarding)) {
        sleep_until(pump, -1, pl_monotonic_us() + pump->config.poll_us);
        return PL_CAUSE_NONE;
    }
    if (PL_LOAD(pump->suppressed)) {
        if (pl_throw_away(pump, 1, &pump->muted))
            return PL_CAUSE_CORRUPT;
        sleep_for_data(pump);
        return pl_is_drained(pump->source) ? PL_CAUSE_SOURCE_CLOSED : PL_CAUSE_NONE;
    }
    uint64_t before = PL_LOAD(pump->frames);
    pl_turn_result turn = pl_forward_turn(pump);
    if (PL_LOAD(pump->frames) != before)
        PL_STORE(pump->turns, PL_LOAD(pump->turns) + 1);
    switch (turn.end) {
    case PL_TURN_MORE:
        sched_yield();
        return PL_CAUSE_NONE;
    case PL_TURN_EMPTY:
        sleep_for_data(pump);
        return PL_CAUSE_NONE;
    case PL_TURN_BLOCKED:
        return sleep_for_space(pump, turn.need_bytes);
    case PL_TURN_EARLY:
        sleep_until(pump, -1, turn.due_us);
        return PL_CAUSE_NONE;
    default:
        return turn.cause;
    }
}

static void report_end(pl_pump *pump, int cause)
{
    if (pump->stale.frames)
        pl_report(pump, PL_PUMP_DISCARDED, PL_CAUSE_STALE_EPOCH, 0, sink_epoch(pump), take_loss(&pump->stale));
    if (pump->muted.frames)
        pl_report(pump, PL_PUMP_DISCARDED, PL_CAUSE_SUPPRESSED, 0, sink_epoch(pump), take_loss(&pump->muted));
    PL_STORE(pump->forwarding, 0);
    pl_report(pump, PL_PUMP_STOPPED, cause, 0, sink_epoch(pump), (pl_loss){0});
    atomic_store_explicit(&pump->finished, 1, memory_order_release);
    uint64_t one = 1; /* again: what is owed can be taken only from now on */
    ssize_t put = write(pump->event_fd, &one, sizeof one);
    (void)put;
}

int pl_pump_run(pl_pump *pump)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* Python's handlers belong to its main thread */
    PL_STORE(pump->realtime, (uint32_t)pl_request_realtime());
    int cause;
    while (!(cause = obey(pump)) && !(cause = work(pump)))
        ;
    report_end(pump, cause);
    if (PL_LOAD(pump->realtime))
        pl_set_normal_scheduling();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return cause;
}
