#define _GNU_SOURCE
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* the same number on every architecture; the kernel has it from 5.9 */
#endif

int pl_set_parent_death_signal(int signal)
{
    return prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0, 0, 0) ? -errno : 0;
}

int pl_set_child_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1ul, 0, 0, 0) ? -errno : 0;
}

static int is_kept(const int *keep, uint32_t count, int fd)
{
    for (uint32_t i = 0; i < count; i++)
        if (keep[i] == fd)
            return 1;
    return 0;
}

/* Linux 5.4 to 5.8: walk the list. Closing while reading is safe for /proc, which resumes by descriptor number. */
static int close_listed(const int *keep, uint32_t count)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return -errno;
    for (struct dirent *entry; (entry = readdir(list));) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && end != entry->d_name && fd != dirfd(list) && !is_kept(keep, count, (int)fd))
            close((int)fd);
    }
    closedir(list);
    return 0;
}

int pl_close_descriptors_except(const int *keep, uint32_t count)
{
    unsigned first = 0;
    for (uint32_t i = 0; i <= count; i++) {
        unsigned last = i < count ? (unsigned)keep[i] - 1 : UINT_MAX;
        if ((i == count || keep[i] > 0) && first <= last && syscall(SYS_close_range, first, last, 0u))
            return errno == ENOSYS || errno == EPERM ? close_listed(keep, count) : -errno;
        if (i < count)
            first = (unsigned)keep[i] + 1;
    }
    return 0;
}

int pl_reset_fault_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (sigaction(faults[i], &action, NULL))
            return -errno;
        sigaddset(&set, faults[i]);
    }
    return -pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int pl_request_realtime(void)
{
    struct sched_param parameters = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0;
}

int pl_set_batch_scheduling(int nice)
{
    struct sched_param parameters = {.sched_priority = 0};
    if (sched_setscheduler(0, SCHED_BATCH, &parameters))
        return -errno;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 0);
    if (now < nice && setpriority(PRIO_PROCESS, 0, nice))
        return -errno;
    return 0;
}

int pl_set_normal_scheduling(void)
{
    struct sched_param parameters = {.sched_priority = 0};
    return sched_setscheduler(0, SCHED_OTHER, &parameters) ? -errno : 0;
}
