import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.frame import AudioFrame, Clock
from parlora.errors import InvalidArgument, ParloraError

FORMATS = st.sampled_from([AudioFormat.pcm16(), AudioFormat.pcmu()])


@pytest.mark.row("AU-01")
def test_two_formats_are_supported_and_pcmu_selects_mu_law() -> None:
    assert AudioFormat() == AudioFormat(Encoding.PCM16LE, 24_000, 1)
    assert AudioFormat.pcmu() == AudioFormat(Encoding.PCMU, 8_000, 1)
    for format in (AudioFormat(), AudioFormat.pcmu()):
        assert format.check_supported() is format


@pytest.mark.row("SL-04")
def test_the_default_format_is_mono_pcm16le_at_24_khz() -> None:
    assert AudioFormat().to_data() == {"encoding": "pcm16le", "sample_rate": 24_000, "channels": 1}


@pytest.mark.row("AU-01")
@given(
    st.builds(
        AudioFormat,
        st.sampled_from(list(Encoding)),
        st.sampled_from([8_000, 16_000, 24_000, 48_000]),
        st.integers(1, 2),
    )
)
def test_every_other_format_is_refused_by_name(format: AudioFormat) -> None:
    if format in (AudioFormat(), AudioFormat.pcmu()):
        return
    with pytest.raises(ParloraError) as refused:
        AudioFormat.from_data(format.to_data(), "session.audio_format")
    assert refused.value.code == "unsupported"
    assert refused.value.details["field"] == "session.audio_format"


@pytest.mark.parametrize("wrong", [7, None, "mp3", {}, {"encoding": "opus", "sample_rate": 8000, "channels": 1}, []])
def test_what_is_no_format_is_one_error_that_names_the_field(wrong: object) -> None:
    with pytest.raises(ParloraError) as refused:
        AudioFormat.from_data(wrong)
    assert refused.value.details["field"] == "audio_format"


@given(FORMATS)
def test_a_format_survives_its_plain_data(format: AudioFormat) -> None:
    assert AudioFormat.from_data(format.to_data()) == format


@pytest.mark.row("AU-02")
@given(FORMATS, st.integers(1, 4_000), st.integers(0, 2**60), st.integers(-(2**60), 2**60))
def test_a_frame_of_either_format_is_made_of_five_arguments(
    format: AudioFormat, samples: int, sequence: int, at_us: int
) -> None:
    data = b"\x01" * (samples * format.sample_bytes)
    frame = AudioFrame.new(data, format, sequence, at_us, Clock.LOCAL_MONOTONIC)
    assert (frame.data, frame.format, frame.sequence, frame.timestamp_us) == (data, format, sequence, at_us)


@pytest.mark.row("AU-03")
@given(st.integers(1, 4_001))
def test_a_mu_law_byte_is_one_sample_so_any_count_is_legal(count: int) -> None:
    frame = AudioFrame.new(b"\x7f" * count, AudioFormat.pcmu(), 0, 0)
    assert frame.duration_us == count * 125
    assert AudioFormat.pcmu().silence(20_000) == b"\xff" * 160


@pytest.mark.row("AU-04")
@given(st.integers(0, 2_000))
def test_a_pcm16_frame_of_half_a_sample_is_refused(samples: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        AudioFrame.new(b"\0" * (2 * samples + 1), AudioFormat(), 0, 0)
    assert refused.value.details["field"] == "data"


@pytest.mark.row("AU-06")
def test_mu_law_durations_keep_fractions_of_a_millisecond() -> None:
    assert AudioFormat.pcmu().duration_us(1) == 125
    assert AudioFormat.pcmu().bytes_for_us(125) == 1


@given(FORMATS, st.integers(0, 10_000_000))
def test_bytes_for_a_duration_are_whole_samples_and_never_longer_than_it(format: AudioFormat, us: int) -> None:
    size = format.bytes_for_us(us)
    assert size % format.sample_bytes == 0
    assert format.duration_us(size) <= us < format.duration_us(size + format.sample_bytes) + 1


def test_audio_shows_in_no_repr() -> None:
    assert "data" not in repr(AudioFrame.new(b"\x12\x34", AudioFormat(), 0, 0))


@pytest.mark.parametrize(
    ("data", "sequence", "field"), [(b"", 0, "data"), ("text", 0, "data"), (b"\0\0", -1, "sequence")]
)
def test_a_malformed_frame_names_the_field(data: bytes, sequence: int, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        AudioFrame.new(data, AudioFormat(), sequence, 0)
    assert refused.value.details["field"] == field
