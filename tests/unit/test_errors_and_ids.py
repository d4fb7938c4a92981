import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora import errors
from parlora.errors import ErrorCode, InvalidArgument, ParloraError, error_from_data
from parlora.ids import check_id, new_id

CLASSES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, ParloraError) and cls is not ParloraError
]


@pytest.mark.row("CM-02")
def test_the_specs_codes_are_all_there() -> None:
    assert {
        "unsupported",
        "not_ready",
        "backpressure",
        "timeout",
        "closed",
        "invalid_argument",
        "adapter_failed",
    } <= {str(code) for code in ErrorCode}


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_is_code_message_and_details_and_survives_as_data(cls: type[ParloraError]) -> None:
    error = cls("it broke", details={"a": 1})
    back = error_from_data(error.to_data())
    assert type(back) is cls
    assert (back.code, back.message, back.details) == (error.code, "it broke", {"a": 1})
    assert pickle.loads(pickle.dumps(error)).to_data() == error.to_data()


@pytest.mark.row("CM-02", "TY-31")
def test_an_unknown_code_is_coped_with() -> None:
    back = error_from_data({"code": "from_the_future", "message": "?", "details": {}})
    assert (type(back), back.code) == (ParloraError, "from_the_future")


@given(st.none() | st.integers() | st.just("") | st.text(min_size=129))
def test_what_is_no_id_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_id(value, "command_id")
    assert refused.value.details["field"] == "command_id"


@pytest.mark.row("CM-19")
@given(st.text(min_size=1, max_size=30))
def test_any_short_text_is_an_id_and_comes_back_unchanged(value: str) -> None:
    assert check_id(value, "id") is value


def test_fresh_ids_differ() -> None:
    assert len({new_id() for _ in range(1_000)}) == 1_000
