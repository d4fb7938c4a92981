"""The one place that decides whether a result still answers what is asked (acceptance CM-16).

Nothing else in Parlora may decide this: a result that does not pass is recorded and never appended.
"""

from __future__ import annotations

from parlora.session.state import Delegation, Job, Task


def is_current(job: Job, task: Task | None, provider_generation: int, delegation: Delegation | None) -> bool:
    """Whether what `job` found may be told to the provider.

    task: the job's task as it is now. provider_generation: of the provider as it is now. delegation: the provider call
    that asked for the job, if it was one. The request must belong to the task's current revision and to the provider's
    current generation; the policy must not have withdrawn that revision; and the provider must not have cancelled the
    call at or after that revision (spec 000 §7).
    """
    if task is None or job.task_revision != task.revision or job.provider_generation != provider_generation:
        return False
    if job.task_revision <= task.withdrawn_revision:
        return False
    if delegation is not None and delegation.status == "cancelled":
        return job.task_revision > (delegation.task_revision or 0)
    return True
