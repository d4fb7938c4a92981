import pytest

from parlora_actors.owner_secrets import HIDDEN, Secrets


def test_what_an_environment_variable_holds_is_hidden_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-hunter2")
    secrets = Secrets({"api_key_env": "SOME_KEY", "nested": {"other_env": "UNSET"}})
    told = secrets.hide({"message": "wrong key sk-hunter2!", "list": ["sk-hunter2", 7], "sk-hunter2": None})
    assert told == {"message": f"wrong key {HIDDEN}!", "list": [HIDDEN, 7], HIDDEN: None}


def test_each_line_of_a_key_file_is_hidden_and_other_files_are_not_read(tmp_path: object) -> None:
    file = tmp_path / "key"  # type: ignore[operator]
    file.write_text("first-key\nsecond-key\n")
    data = "first-key and second-key"
    assert Secrets({"api_key_file": str(file)}).hide(data) == f"{HIDDEN} and {HIDDEN}"
    assert Secrets({"caller_file": str(file)}).hide(data) == data


@pytest.mark.parametrize("options", [{}, {"api_key_env": "UNSET_FOR_SURE"}, {"api_key_file": "/no/such/file"}])
def test_without_secrets_nothing_changes(options: dict[str, str]) -> None:
    data = {"message": "hello"}
    assert Secrets(options).hide(data) is data


def test_a_value_too_short_to_be_a_key_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "a")
    assert Secrets({"api_key_env": "SOME_KEY"}).hide("a banana") == "a banana"
