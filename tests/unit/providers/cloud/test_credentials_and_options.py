"""Keys are named, never given; addresses and texts are checked before anything is opened."""

import os
import pickle
from pathlib import Path

import pytest

from parlora.errors import InvalidArgument
from parlora.providers.cloud.connection import Endpoint
from parlora.providers.cloud.credentials import Credential, CredentialSource
from parlora.providers.cloud.options import check_ca_file, check_integer, check_text, check_url

KEY = "sk-unit-2d8f"


def source(env: object = None, file: object = None) -> CredentialSource:
    return CredentialSource(env, file, "PARLORA_UNIT_KEY")


def test_a_key_comes_from_the_named_variable_or_file_at_the_time_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_default, by_name = source(), source("PARLORA_UNIT_OTHER")
    monkeypatch.setenv("PARLORA_UNIT_KEY", KEY)
    monkeypatch.setenv("PARLORA_UNIT_OTHER", "other")
    assert by_default.read().reveal() == KEY
    assert by_name.read().reveal() == "other"
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    assert source(file=str(path)).read().reveal() == KEY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no key"),
        (b"a b", "printable"),
        (b"a\r\nX-Evil: 1", "printable"),
        (b"k\xe9y", "ASCII"),
        (b"x" * 20_000, "large"),
    ],
    ids=["empty", "blank", "header", "latin", "large"],
)
def test_a_file_that_holds_no_key_is_refused_without_telling_what_it_holds(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match=message) as refused:
        source(file=str(path)).read()
    assert refused.value.details == {"field": "api_key_file"}
    assert "Evil" not in str(refused.value)


def test_what_is_no_file_is_named_and_holds_nothing_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in ((pipe, "regular"), (tmp_path, "regular|directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(InvalidArgument, match=message):
            source(file=str(path)).read()


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARLORA_UNIT_KEY", raising=False)
    with pytest.raises(InvalidArgument, match="PARLORA_UNIT_KEY") as refused:
        source().read()
    assert refused.value.details == {"field": "api_key_env"}


def test_both_sources_or_a_wrong_name_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        source("A", "b")
    for wrong in ("", 7, b"x"):
        with pytest.raises(InvalidArgument):
            source(wrong)


def test_a_key_shows_nowhere_and_leaves_its_process_never() -> None:
    credential = Credential(KEY)
    endpoint = Endpoint("wss://x/", {"Authorization": f"Bearer {credential.reveal()}"})
    for shown in (repr(credential), str(credential), f"{credential}", repr(endpoint)):
        assert KEY not in shown
    with pytest.raises(TypeError):
        pickle.dumps(credential)


@pytest.mark.parametrize("url", ["wss://api.example/v1", "ws://127.0.0.1:80/x", "ws://localhost/x", "ws://[::1]:9/x"])
def test_a_secure_url_or_one_of_this_machine_is_taken(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "ws://api.example/v1",
        "https://api.example",
        "wss://",
        "wss://u:p@api.example",
        "wss://a/#b",
        "wss://a:x/",
        7,
        "wss://a b/",
    ],
)
def test_any_other_url_is_refused_by_name(url: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_url(url)
    assert refused.value.details == {"field": "url"}


def test_texts_and_numbers_are_bounded() -> None:
    assert check_text(None, "voice") is None
    assert check_text("cedar", "voice") == "cedar"
    assert check_integer(5, "delay", 0, 9) == 5
    for wrong in ("", "x" * 513, "a\nb", 3):
        with pytest.raises(InvalidArgument, match="voice"):
            check_text(wrong, "voice")
    for number in (-1, 10, True, 1.0, "1"):
        with pytest.raises(InvalidArgument, match="delay"):
            check_integer(number, "delay", 0, 9)


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    assert check_ca_file(None) is None
    for wrong in (str(path), str(tmp_path / "none")):
        with pytest.raises(InvalidArgument, match="ca_file"):
            check_ca_file(wrong)
