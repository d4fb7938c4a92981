import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat
from parlora.errors import InvalidArgument
from parlora.limits import AudioLimits, Limits

PCM, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()


@pytest.mark.row("LM-04", "SL-05")
@pytest.mark.parametrize(("format", "expected"), [(PCM, 9_600), (PCMU, 1_600)])
def test_queues_default_to_200_ms_of_the_format(format: AudioFormat, expected: int) -> None:
    assert Limits().resolve(format).audio_queue_bytes == expected


@pytest.mark.row("LM-05")
@pytest.mark.parametrize(("format", "expected"), [(PCM, 33_600), (PCMU, 5_600)])
def test_the_provider_fallback_is_700_ms_kept_for_750(format: AudioFormat, expected: int) -> None:
    limits = Limits().resolve(format)
    assert (limits.provider_audio_queue_bytes, limits.provider_audio_max_age_ms) == (expected, 750)


@pytest.mark.row("SL-05")
@given(st.sampled_from([PCM, PCMU]), st.integers(1, 2_000))
def test_a_byte_bound_that_is_given_wins(format: AudioFormat, samples: int) -> None:
    size = samples * format.sample_bytes
    assert Limits(audio_queue_bytes=size).resolve(format).audio_queue_bytes == size


@pytest.mark.row("LM-09")
def test_a_given_provider_bound_wins_over_the_providers_profile() -> None:
    profile = AudioLimits(queue_bytes=96_000, max_age_ms=3_000)
    assert Limits().resolve(PCM, profile).provider_audio_queue_bytes == 96_000
    assert Limits().resolve(PCM, profile).provider_audio_max_age_ms == 3_000
    own = Limits(provider_audio_queue_bytes=4_800, provider_audio_max_age_ms=100).resolve(PCM, profile)
    assert (own.provider_audio_queue_bytes, own.provider_audio_max_age_ms) == (4_800, 100)


@pytest.mark.row("LM-01")
@pytest.mark.parametrize("name", sorted(Limits.__dataclass_fields__))
@pytest.mark.parametrize("wrong", [0, -1, float("inf"), "9", True, 2**63], ids=str)
def test_an_unlimited_or_misfit_limit_is_refused_by_name(name: str, wrong: object) -> None:
    if name == "max_pending_jobs" and wrong == 0 and wrong is not True:
        return
    with pytest.raises(InvalidArgument) as refused:
        Limits.from_data({name: wrong}).resolve(PCM)
    assert refused.value.details["field"] == f"limits.{name}"


@pytest.mark.row("LM-01")
def test_every_effective_value_is_finite() -> None:
    values = Limits().resolve(PCM).to_data()
    assert values.pop("max_session_ms") is None  # how long people talk is no resource: off unless asked for
    assert all(type(value) is int and value > 0 for value in values.values())


def test_an_unknown_limit_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Limits.from_data({"max_job": 3})
    assert refused.value.details["field"] == "limits.max_job"
    assert "max_jobs" in refused.value.message


@pytest.mark.row("LM-25")
@pytest.mark.parametrize(
    "name",
    ["policy_timeout_ms", "startup_timeout_ms", "cancellation_timeout_ms", "job_timeout_ms", "shutdown_timeout_ms"],
)
def test_each_deadline_is_configurable(name: str) -> None:
    assert getattr(Limits.from_data({name: 1_234}), name) == 1_234


@pytest.mark.row("LM-12", "LM-13")
def test_subscriber_bounds_default_to_32_and_2048() -> None:
    assert (Limits().max_subscribers, Limits().subscriber_mailbox_threshold) == (32, 2_048)


def test_a_frame_may_not_be_larger_than_the_queue() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Limits(audio_queue_bytes=960, max_frame_bytes=962).resolve(PCM)
    assert refused.value.details["field"] == "limits.max_frame_bytes"


def test_records_must_hold_every_job() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Limits(max_jobs=8, max_pending_jobs=8, max_records=15).check()
    assert refused.value.details["field"] == "limits.max_records"
