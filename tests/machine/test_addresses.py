import pytest

from turnchart.machine.addresses import Login, login_of, without_login


@pytest.mark.parametrize(
    ("url", "login", "rest"),
    [
        ("http://ann:p%40ss@host:1/v1?q=1", Login("ann", "p@ss"), "http://host:1/v1?q=1"),
        ("https://ann@host/v1", Login("ann", ""), "https://host/v1"),
        ("https://:word@[::1]:8/v1", Login("", "word"), "https://[::1]:8/v1"),
        ("https://host/@v1", None, "https://host/@v1"),
        ("", None, ""),
        ("http://ann:pass/word@host/v1", None, "http://***"),
        ("http://ann:pass#word@host/v1", None, "http://***"),
        ("http://ann:pass[word@host/v1", None, "http://***"),
    ],
)
def test_who_logs_in_is_taken_out_of_an_address(url: str, login: Login | None, rest: str) -> None:
    assert (login_of(url), without_login(url)) == (login, rest)


def test_a_password_is_known_as_it_is_as_it_is_written_and_as_it_is_sent() -> None:
    login = login_of("http://ann:p%40ss@host")
    assert login is not None
    assert login.secrets == ("p@ss", "p%40ss", "YW5uOnBAc3M=")
    assert "p@ss" not in repr(login)
    assert Login("ann", "word", "word").secrets == ("word", "YW5uOndvcmQ=")
    assert Login("", "").secrets == ()


def test_a_user_without_a_password_may_be_a_token() -> None:
    login = login_of("https://tok%2Den@host/v1")
    assert login is not None
    assert login.secrets == ("tok-en", "tok%2Den", "dG9rLWVuOg==")
    assert "tok-en" not in repr(login)
