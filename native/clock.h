/* The one clock of the native part: CLOCK_MONOTONIC in microseconds, the same for every process of the machine. */
#ifndef PL_CLOCK_H
#define PL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t pl_monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static inline struct timespec pl_timespec(uint64_t us)
{
    return (struct timespec){.tv_sec = (time_t)(us / 1000000u), .tv_nsec = (long)(us % 1000000u) * 1000};
}

#endif
