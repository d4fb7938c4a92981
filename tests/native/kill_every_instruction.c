/* SIGKILL after every single instruction of the ring's real calls; then a survivor and a successor check everything.
 *
 *   kill_every_instruction SHARD SHARDS
 *
 * For each operation of kill_operations.h a child is stopped at a breakpoint right before the call, single-stepped
 * k instructions into it and killed, for every k up to the call's end (those with k % SHARDS == SHARD). The parent
 * holds the other role: it checks the frames and counters, lets a successor take the dead role over, and moves more
 * audio.
 *
 * Prints one JSON object. Exit 0: no inconsistency; 1: some; 77: cannot run here, the reason is on stderr. */
#define _GNU_SOURCE
#include "../../native/ring.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void)
{
    fprintf(stderr, "single-stepping is written for x86-64\n");
    return 77;
}
#else

#include "kill_operations.h"

/* --- stepping ----------------------------------------------------------------------------------------------------- */

static void cannot(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, strerror(errno));
    exit(77);
}

/* A child stopped at its first breakpoint, one instruction before the operation's call. */
static pid_t stopped_child(const operation *op, pl_ring *ring)
{
    pid_t child = fork();
    if (child < 0)
        cannot("fork");
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        __asm__ volatile("int3");
        op->act(ring);
        __asm__ volatile("int3");
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) {
        errno = EPERM;
        cannot("ptrace is refused here");
    }
    return child;
}

/* 1: stopped after one more instruction; 0: gone. */
static int step(pid_t child)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL))
        return 0;
    waitpid(child, &status, 0);
    return WIFSTOPPED(status);
}

static void kill_child(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) == child && !WIFEXITED(status) && !WIFSIGNALED(status))
        ;
}

static pl_ring *prepared(const operation *op)
{
    pl_ring *ring = pl_ring_create(BOUND, 0, FRAME);
    if (!ring)
        cannot("memfd");
    op->prepare(ring);
    return ring;
}

/* Instructions from the first breakpoint to the second. */
static long length_of(const operation *op)
{
    pl_ring *ring = prepared(op);
    pid_t child = stopped_child(op, ring);
    long count = 0;
    while (step(child)) {
        siginfo_t info;
        if (ptrace(PTRACE_GETSIGINFO, child, NULL, &info) || info.si_code != TRAP_TRACE)
            break; /* SI_KERNEL: the second int3 */
        count++;
    }
    kill_child(child);
    pl_ring_free(ring);
    return count;
}

static long run(const operation *op, long shard, long shards)
{
    long length = length_of(op), done = 0;
    current_op = op->name;
    for (long position = shard; position <= length; position += shards, done++) {
        current_position = position;
        pl_ring *ring = prepared(op);
        pid_t child = stopped_child(op, ring);
        for (long i = 0; i < position && step(child); i++)
            ;
        kill_child(child);
        op->check(ring);
        pl_ring_free(ring);
    }
    return done;
}

int main(int argc, char **argv)
{
    long shard = argc > 2 ? atol(argv[1]) : 0, shards = argc > 2 ? atol(argv[2]) : 1, total = 0;
    memset(packet, 'p', sizeof packet);
    printf("{\"operations\": {");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        long done = run(&operations[i], shard, shards);
        printf("%s\"%s\": %ld", i ? ", " : "", operations[i].name, done);
        total += done;
    }
    printf("}, \"positions\": %ld, \"published_not_yet_woken\": %ld, \"inconsistencies\": %ld}\n", total, not_yet_woken,
           inconsistencies);
    return inconsistencies != 0;
}
#endif
