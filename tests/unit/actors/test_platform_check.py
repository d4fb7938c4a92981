"""A system that cannot run a node is refused with a clear word."""

import resource

import pytest

from parlora.errors import Unsupported
from parlora_actors import platform_check
from parlora_actors.platform_check import check_platform, raise_descriptor_limit


@pytest.mark.parametrize("release", ["5.4.0-generic", "5.15.2", "6.1", "10.0-rc1"])
def test_linux_from_5_4_on_is_fine(release: str) -> None:
    check_platform("linux", release)


@pytest.mark.parametrize("release", ["5.3.18", "4.19.0-6-amd64", "unknown"])
def test_an_older_kernel_is_refused_by_name(release: str) -> None:
    with pytest.raises(Unsupported, match=r"5\.4 or newer; this is " + release):
        check_platform("linux", release)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_refused_by_name(platform: str) -> None:
    with pytest.raises(Unsupported, match=platform):
        check_platform(platform, "23.0")


def test_too_few_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_check.resource, "getrlimit", lambda _: (1_024, 1_024))
    with pytest.raises(Unsupported, match="1024; a node needs 4096") as refused:
        raise_descriptor_limit()
    assert refused.value.details == {"limit": 1_024, "needed": 4_096}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((1_024, 4_096), (4_096, 4_096)),
        ((1_024, 1_048_576), (65_536, 1_048_576)),
        ((1_024, resource.RLIM_INFINITY), (65_536, resource.RLIM_INFINITY)),
        ((100_000, 1_048_576), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_the_soft_limit_is_raised_but_never_lowered(
    limits: tuple[int, int], expected: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(platform_check.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(platform_check.resource, "setrlimit", lambda _, wanted: asked.append(wanted))
    raise_descriptor_limit()
    assert asked == ([] if expected is None else [expected])
