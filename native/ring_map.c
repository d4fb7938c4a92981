/* The ring's memory: create, attach, roles, release. */
#define _GNU_SOURCE
#include "clock.h"
#include "ring_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MAX_CAPACITY (1ull << 30)

_Static_assert(sizeof(pl_frame) == PL_LINE, "a frame header is one cache line");
_Static_assert(sizeof(pl_counters) == PL_LINE, "a counter slot is one cache line");
_Static_assert(sizeof(pl_shared) <= PL_HEADER_BYTES, "the shared header is one page");

static size_t mapped_bytes(uint64_t capacity)
{
    return PL_HEADER_BYTES + 2 * (size_t)capacity;
}

/* Header page, data, and the same data again: record offsets need no wrap, and a view of one is always contiguous. */
static pl_ring *map_ring(int memory_fd, uint64_t capacity)
{
    size_t total = mapped_bytes(capacity);
    uint8_t *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    uint8_t *mirror = base + PL_HEADER_BYTES + capacity;
    int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    pl_ring *ring = NULL;
    if (mmap(base, PL_HEADER_BYTES + capacity, access, flags, memory_fd, 0) != MAP_FAILED &&
        mmap(mirror, capacity, access, flags, memory_fd, PL_HEADER_BYTES) != MAP_FAILED)
        ring = aligned_alloc(PL_LINE, (sizeof(pl_ring) + PL_LINE - 1) / PL_LINE * PL_LINE);
    if (!ring) {
        int error = errno;
        munmap(base, total);
        errno = error;
        return NULL;
    }
    memset(ring, 0, sizeof *ring);
    ring->shared = (pl_shared *)base;
    ring->data = base + PL_HEADER_BYTES;
    ring->capacity = capacity;
    ring->mask = capacity - 1;
    ring->memory_fd = memory_fd;
    ring->data_fd = ring->space_fd = ring->peer_pidfd = -1;
    return ring;
}

/* Each side's position and counters as the shared memory has them; used when a role starts or restarts. */
static void resume_producer(pl_ring *ring)
{
    pl_counters counters;
    pl_snapshot(&ring->shared->head, ring->shared->produced, &ring->head, &counters);
    ring->bytes_in = PL_LOAD(counters.bytes);
    pl_snapshot(&ring->shared->tail, ring->shared->consumed, &ring->seen_tail, &counters);
    ring->seen_bytes_gone = PL_LOAD(counters.bytes) + PL_LOAD(counters.dropped_bytes);
}

static void resume_consumer(pl_ring *ring)
{
    ring->tail = PL_POSITION(PL_ACQUIRE(ring->shared->tail));
    ring->seen_head = PL_POSITION(PL_ACQUIRE(ring->shared->head));
    ring->peeked = 0;
}

static void adopt_constants(pl_ring *ring)
{
    ring->max_bytes = PL_LOAD(ring->shared->max_bytes);
    ring->max_age_us = PL_LOAD(ring->shared->max_age_us);
    ring->max_frame_bytes = ring->shared->max_frame_bytes;
    resume_producer(ring);
    resume_consumer(ring);
}

pl_ring *pl_ring_create(uint64_t max_bytes, uint64_t max_age_us, uint32_t max_frame_bytes)
{
    if (max_frame_bytes < 1 || max_frame_bytes > max_bytes || max_bytes > MAX_CAPACITY / 4) {
        errno = EINVAL;
        return NULL;
    }
    /* A record of 127 payload bytes or more takes at most twice its payload. */
    uint64_t capacity = PL_HEADER_BYTES;
    while (capacity < 2 * max_bytes + pl_record_bytes(max_frame_bytes))
        capacity <<= 1;
    int memory_fd = memfd_create("parlora-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory_fd < 0)
        return NULL;
    pl_ring *ring = NULL;
    if (ftruncate(memory_fd, (off_t)(PL_HEADER_BYTES + capacity)) == 0 && fcntl(memory_fd, F_ADD_SEALS, SEALS) == 0)
        ring = map_ring(memory_fd, capacity);
    if (!ring) {
        int error = errno;
        close(memory_fd);
        errno = error;
        return NULL;
    }
    ring->data_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ring->space_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ring->data_fd < 0 || ring->space_fd < 0) {
        int error = errno;
        pl_ring_free(ring);
        errno = error;
        return NULL;
    }
    pl_shared *shared = ring->shared; /* a fresh memfd is all zero: positions, counters, epoch and flags are right */
    shared->version = PL_RING_VERSION;
    shared->header_bytes = PL_HEADER_BYTES;
    shared->capacity = capacity;
    shared->created_bytes = max_bytes;
    PL_STORE(shared->max_bytes, max_bytes);
    PL_STORE(shared->max_age_us, max_age_us);
    shared->max_frame_bytes = max_frame_bytes;
    atomic_thread_fence(memory_order_release);
    shared->magic = PL_RING_MAGIC;
    adopt_constants(ring);
    return ring;
}

static int is_ring(const pl_shared *shared, uint64_t file_bytes)
{
    uint64_t capacity = shared->capacity, max_bytes = PL_LOAD(shared->max_bytes);
    return shared->magic == PL_RING_MAGIC && shared->version == PL_RING_VERSION &&
           shared->header_bytes == PL_HEADER_BYTES && capacity >= PL_HEADER_BYTES && capacity <= MAX_CAPACITY &&
           (capacity & (capacity - 1)) == 0 && file_bytes == PL_HEADER_BYTES + capacity && max_bytes <= capacity / 2 &&
           shared->max_frame_bytes >= 1 && shared->max_frame_bytes <= max_bytes;
}

pl_ring *pl_ring_attach(int memory_fd, int data_fd, int space_fd)
{
    struct stat file;
    if (fcntl(data_fd, F_GETFD) < 0 || fcntl(space_fd, F_GETFD) < 0 || fstat(memory_fd, &file))
        return NULL;
    /* Unsealed memory could be shrunk by a peer, and the next access would be a SIGBUS. */
    int seals = fcntl(memory_fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || file.st_size < (off_t)PL_HEADER_BYTES) {
        errno = EPROTO;
        return NULL;
    }
    pl_shared *probe = mmap(NULL, PL_HEADER_BYTES, PROT_READ, MAP_SHARED, memory_fd, 0);
    if (probe == MAP_FAILED)
        return NULL;
    int good = is_ring(probe, (uint64_t)file.st_size);
    munmap(probe, PL_HEADER_BYTES);
    if (!good) {
        errno = EPROTO;
        return NULL;
    }
    pl_ring *ring = map_ring(memory_fd, (uint64_t)file.st_size - PL_HEADER_BYTES);
    if (!ring)
        return NULL;
    ring->data_fd = data_fd;
    ring->space_fd = space_fd;
    adopt_constants(ring);
    return ring;
}

void pl_ring_free(pl_ring *ring)
{
    if (!ring)
        return;
    munmap(ring->shared, mapped_bytes(ring->capacity));
    int descriptors[3];
    pl_ring_descriptors(ring, descriptors);
    for (int i = 0; i < 3; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    free(ring);
}

void pl_ring_descriptors(const pl_ring *ring, int out[3])
{
    out[0] = ring->memory_fd;
    out[1] = ring->data_fd;
    out[2] = ring->space_fd;
}

/* POSIX record lock on byte 0 (producer) or 1 (consumer) of the memory: it goes with the process, however that ends. */
int64_t pl_ring_claim(pl_ring *ring, int consumer)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = consumer ? 1 : 0, .l_len = 1};
    if (fcntl(ring->memory_fd, F_SETLK, &lock)) {
        if (errno != EAGAIN && errno != EACCES)
            return -1;
        struct flock holder = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = consumer ? 1 : 0, .l_len = 1};
        if (fcntl(ring->memory_fd, F_GETLK, &holder) || holder.l_type == F_UNLCK) {
            errno = EAGAIN;
            return -1;
        }
        return holder.l_pid;
    }
    if (consumer)
        resume_consumer(ring);
    else
        resume_producer(ring);
    return 0;
}

void pl_ring_watch_peer(pl_ring *ring, int pidfd)
{
    ring->peer_pidfd = pidfd;
}

void pl_ring_set_clock(pl_ring *ring, uint64_t now_us)
{
    ring->clock_us = now_us;
}

uint64_t pl_ring_time(const pl_ring *ring)
{
    return ring->clock_us ? ring->clock_us : pl_monotonic_us();
}

uint64_t pl_now_us(void)
{
    return pl_monotonic_us();
}
