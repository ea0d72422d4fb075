"""Which logins are let in at once, which wait, and in what order."""

from __future__ import annotations

from leveret.core.users.accounts import User
from leveret.core.users.login_checks import PASSWORD_BYTES_MAX, LoginChecks, PasswordCheck
from leveret.core.users.login_results import LoginResult


def new(running_max: int = 1, waiting_max: int = 100) -> tuple[LoginChecks, dict[str, User]]:
    users = {"ann": User("ann", "hash of ann's"), "bob": User("bob", "hash of bob's")}
    checks = LoginChecks(
        users,
        running_max=running_max,
        waiting_max=waiting_max,
        decoy_hash="decoy",
        key=b"k" * 32,
    )
    return checks, users


def start(checks: LoginChecks) -> PasswordCheck:
    check = checks.start_next(lambda _asker: True)
    assert check is not None
    return check


def is_idle(checks: LoginChecks) -> bool:
    return checks.start_next(lambda _asker: True) is None


def test_a_right_password_is_checked_once_and_then_remembered() -> None:
    checks, _ = new()
    assert checks.ask("first", "here", "ann", "secret") is None
    check = start(checks)
    assert (check.user, check.password, check.password_hash) == ("ann", "secret", "hash of ann's")
    assert check.askers == ["first"]
    assert checks.finished(check, True) is LoginResult.ALLOWED
    assert checks.ask("second", "elsewhere", "ann", "secret") is LoginResult.ALLOWED
    assert checks.ask("second", "elsewhere", "ann", "Secret") is None
    assert checks.ask("second", "elsewhere", "bob", "secret") is None


def test_a_wrong_password_is_not_remembered() -> None:
    checks, _ = new()
    checks.ask("first", "here", "ann", "wrong")
    assert checks.finished(start(checks), False) is LoginResult.WRONG_PASSWORD
    assert checks.ask("second", "here", "ann", "wrong") is None


def test_a_remembered_login_holds_no_password() -> None:
    checks, _ = new()
    checks.ask("first", "here", "ann", "s3cr3t-word")
    check = start(checks)
    assert "s3cr3t-word" not in repr(check)
    checks.finished(check, True)
    assert "s3cr3t-word" not in repr(vars(checks))


def test_a_changed_user_is_checked_anew_and_a_deleted_one_is_refused() -> None:
    checks, users = new()
    checks.ask("first", "here", "ann", "secret")
    checks.finished(start(checks), True)
    users["ann"] = User("ann", "another hash")
    assert checks.ask("second", "here", "ann", "secret") is None
    check = start(checks)
    assert check.password_hash == "another hash"
    del users["ann"]
    assert checks.finished(check, True) is LoginResult.UNKNOWN_USER
    assert checks.ask("third", "here", "ann", "secret") is None
    assert start(checks).password_hash == "decoy"


def test_a_password_that_was_right_for_what_the_user_no_longer_has_lets_nobody_in() -> None:
    checks, users = new()
    checks.ask("first", "here", "ann", "secret")
    check = start(checks)
    users["ann"] = User("ann", "another hash")
    assert checks.finished(check, True) is LoginResult.USER_CHANGED


def test_an_unknown_user_costs_a_check_too_and_is_never_let_in() -> None:
    checks, _ = new()
    assert checks.ask("first", "here", "eve", "secret") is None
    check = start(checks)
    assert check.password_hash == "decoy"
    assert checks.finished(check, True) is LoginResult.UNKNOWN_USER


def test_logins_with_the_same_user_and_password_share_one_check() -> None:
    checks, _ = new(waiting_max=1)
    for asker in range(1000):
        assert checks.ask(asker, f"host {asker}", "ann", "secret") is None
    check = start(checks)
    assert checks.ask(1000, "host", "ann", "secret") is None
    assert check.askers == list(range(1001))
    assert is_idle(checks)
    assert checks.finished(check, True) is LoginResult.ALLOWED


def test_no_more_checks_run_at_once_than_allowed() -> None:
    checks, _ = new(running_max=2)
    for number in range(3):
        checks.ask(number, "here", "ann", f"guess {number}")
    first = start(checks)
    start(checks)
    assert is_idle(checks)
    checks.finished(first, False)
    assert start(checks).password == "guess 2"
    assert is_idle(checks)


def test_a_login_is_refused_while_too_many_wait() -> None:
    checks, _ = new(waiting_max=2)
    answers = [checks.ask(number, "here", "ann", f"guess {number}") for number in range(3)]
    assert answers == [None, None, LoginResult.TOO_MANY_CHECKS]
    start(checks)
    assert checks.ask(4, "here", "ann", "guess 4") is None


def test_a_password_or_name_that_is_too_long_is_refused_without_a_place_in_the_queue() -> None:
    checks, _ = new()
    assert (
        checks.ask("asker", "here", "ann", "p" * (PASSWORD_BYTES_MAX + 1)) is LoginResult.TOO_LONG
    )
    assert checks.ask("asker", "here", "a" * 256, "secret") is LoginResult.TOO_LONG
    assert is_idle(checks)
    assert checks.ask("asker", "here", "ann", "p" * PASSWORD_BYTES_MAX) is None


def test_an_empty_password_lets_nobody_in() -> None:
    checks, _ = new()
    assert checks.ask("asker", "here", "ann", "") is LoginResult.EMPTY_PASSWORD
    assert is_idle(checks)


def test_addresses_take_turns_so_that_guessing_delays_the_guesser() -> None:
    checks, _ = new()
    for number in range(5):
        checks.ask("guesser", "there", "ann", f"guess {number}")
    checks.ask("bob", "here", "bob", "secret")
    order = []
    for _ in range(6):
        check = start(checks)
        order.append(check.password)
        checks.finished(check, check.user == "bob")
    assert order == ["guess 0", "secret", "guess 1", "guess 2", "guess 3", "guess 4"]
    assert is_idle(checks)


def test_no_password_is_checked_for_a_connection_that_has_gone() -> None:
    checks, _ = new()
    checks.ask("gone", "here", "ann", "guess")
    checks.ask("there", "here", "ann", "secret")
    check = checks.start_next(lambda asker: asker == "there")
    assert check is not None
    assert check.password == "secret"
    # Who asks again is not taken for one who waits already.
    checks.finished(check, True)
    assert checks.ask("there", "here", "ann", "guess") is None
    assert start(checks).password == "guess"


def test_an_address_that_fills_the_waiting_places_makes_room_for_another() -> None:
    checks, _ = new(waiting_max=3)
    for number in range(3):
        assert checks.ask(number, "there", "ann", f"guess {number}") is None
    assert checks.ask("bob", "here", "bob", "secret") is None
    assert checks.refused == [2]
    # No further than to an equal share.
    assert checks.ask("bob too", "here", "bob", "another") is LoginResult.TOO_MANY_CHECKS
    assert checks.ask("more", "there", "ann", "guess 3") is LoginResult.TOO_MANY_CHECKS
    assert checks.refused == [2]
    checks.refused.clear()
    order = []
    for _ in range(3):
        check = start(checks)
        order.append(check.password)
        checks.finished(check, False)
    assert order == ["guess 0", "secret", "guess 1"]
    assert is_idle(checks)
    # Who was refused may ask again.
    assert checks.ask(2, "there", "ann", "guess 2") is None
