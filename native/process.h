/* What a process of ours needs from Linux and Python does not offer. Each acts on the calling process or thread.
 * 0 (or what is said) on success, a negative errno on failure. */
#ifndef PL_PROCESS_H
#define PL_PROCESS_H

#include <stdint.h>

/* The kernel sends `signal` to this process when the thread that created it ends. The caller must check afterwards
 * that its parent is still the expected one. Not inherited by children. */
int pl_set_parent_death_signal(int signal);

/* Orphaned descendants become children of this process instead of init's. */
int pl_set_child_subreaper(void);

/* Closes every descriptor but those in `keep`, which must be sorted and without repetition. */
int pl_close_descriptors_except(const int *keep, uint32_t count);

/* SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS and SIGTRAP get their default action: a fault ends the process. */
int pl_reset_fault_signals(void);

/* SCHED_FIFO priority 1 for the calling thread, not for its children. 1 granted, 0 refused. */
int pl_request_realtime(void);

/* SCHED_BATCH for the calling thread, and nice raised to at least `nice`. Works for everyone. */
int pl_set_batch_scheduling(int nice);

/* Back to SCHED_OTHER for the calling thread. */
int pl_set_normal_scheduling(void);

#endif
