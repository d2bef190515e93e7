"""What is said, and not said, of a connection that does not come about; IAM tokens."""

from __future__ import annotations

import traceback
from typing import Any

import psycopg
import pytest
from botocore.exceptions import NoCredentialsError

from longhaul.warehouse import connection
from longhaul.warehouse.errors import (
    WarehouseDeniedError,
    WarehouseError,
    WarehouseRefusedError,
    WarehouseUnavailableError,
    classified,
)

SECRET = "s3cret/wo"


@pytest.mark.parametrize(
    "conninfo",
    [
        f"postgresql//u:{SECRET}@127.0.0.1:1/x",
        f"postgresql://u:{SECRET}@127.0.0.1:1/x",
        f"postgresql://u:p@{SECRET}@127.0.0.1:1/x",
        f"postgres://u:{SECRET}:more@127.0.0.1:1/x",
        f"host=127.0.0.1 port=1 password={SECRET} nonsense",
        f"host=127.0.0.1 port=1 password='{SECRET}",
        f"{SECRET}",
        "postgresql://u:s3cret%2Fwo@127.0.0.1:1/x",
    ],
)
def test_no_message_holds_a_password_or_a_piece_of_one(conninfo: str) -> None:
    with pytest.raises(WarehouseError) as raised:
        connection.connect(conninfo, name="test", connect_seconds=2).close()
    told = "".join(traceback.format_exception(raised.value))
    said = told.replace(f'"{conninfo}"', "")  # the test's own line
    for piece in (SECRET, "s3cret", "wo@"):
        assert piece not in str(raised.value)
        assert piece not in said.split("Error: ", 1)[1]
    assert "\n" not in str(raised.value)


def test_a_password_in_the_servers_words_is_left_out(monkeypatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "from-the-variable")
    for known in ({"password": "from-the-url"}, {}):
        told = connection._without_secrets(
            WarehouseUnavailableError("no user from-the-url, nor from-the-variable"), known
        )
        assert isinstance(told, WarehouseUnavailableError)
        assert str(told) == f"no user {'***' if known else 'from-the-url'}, nor ***"


@pytest.fixture
def asked(monkeypatch) -> dict[str, Any]:
    """What psycopg and RDS are asked for."""
    found: dict[str, Any] = {}

    class Connection:
        isolation_level = None

    class Rds:
        def generate_db_auth_token(self, **request: Any) -> str:
            found["token"] = request
            return "a-token"

    monkeypatch.setattr("psycopg.connect", lambda conninfo, **options: found.update(options) or Connection())
    monkeypatch.setattr("boto3.client", lambda name: Rds())
    monkeypatch.setenv("LONGHAUL_WAREHOUSE_IAM_AUTH", "true")
    for name in ("PGSSLMODE", "PGHOST", "PGPORT", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [(None, "require"), ("prefer", "require"), ("disable", "require"), ("verify-full", "verify-full")],
)
@pytest.mark.parametrize("variable", [False, True])
def test_an_iam_token_goes_over_tls_as_strict_as_was_asked(
    asked: dict[str, Any], monkeypatch, mode: str | None, wanted: str, variable: bool
) -> None:
    conninfo = "host=db port=6000 user=importer"
    if mode and variable:
        monkeypatch.setenv("PGSSLMODE", mode)
    elif mode:
        conninfo += f" sslmode={mode}"
    connection.connect(conninfo, name="test")
    assert asked["token"] == {"DBHostname": "db", "Port": 6000, "DBUsername": "importer"}
    assert (asked["password"], asked["sslmode"]) == ("a-token", wanted)


def test_without_credentials_there_is_no_token_and_the_warehouse_is_out_of_reach(
    asked: dict[str, Any], monkeypatch
) -> None:
    def fail(name: str) -> None:
        raise NoCredentialsError

    monkeypatch.setattr("boto3.client", fail)
    with pytest.raises(WarehouseUnavailableError, match="no IAM token"):
        connection.connect("host=db", name="test")


def test_a_server_that_vanished_is_noticed(asked: dict[str, Any]) -> None:
    connection.connect("host=db", name="test")
    assert (asked["tcp_user_timeout"], asked["keepalives_idle"], asked["connect_timeout"]) == (60_000, 30, 10)


def test_refused_when_it_is_no_conninfo() -> None:
    with pytest.raises(WarehouseRefusedError, match="percent-encoded"):
        connection.connect("nonsense", name="test")


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError('connection failed: ... FATAL:  password authentication failed for user "importer"'),
        psycopg.OperationalError(
            "connection failed: ... refused\nMultiple connection attempts failed. All failures were:\n"
            '- host: db: FATAL:  password authentication failed for user "importer"'
        ),
        psycopg.errors.InvalidPassword('password authentication failed for user "importer"'),
    ],
)
def test_a_refused_log_in_is_told_from_a_server_out_of_reach(error: psycopg.Error) -> None:
    found = classified(error)
    assert isinstance(found, WarehouseDeniedError)
    assert str(found) == 'the warehouse refuses the log-in: password authentication failed for user "importer"'


@pytest.mark.parametrize(
    "text",
    [
        "connection failed: Connection refused",
        'FATAL:  PAM authentication failed for user "importer"',  # an IAM token: the next connection has another
        "FATAL:  the database system is starting up",
    ],
)
def test_what_can_pass_is_waited_for(text: str) -> None:
    assert type(classified(psycopg.OperationalError(text))) is WarehouseUnavailableError
