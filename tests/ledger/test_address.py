"""A password in an address is taken out, or the address is refused without repeating any of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.core.errors import InvalidArgument
from reticent.ledger.address import PostgresAddress, parse_address, without_password
from reticent.ledger.ledger import Ledger

SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:hunter2/x@db/clinic",
        "postgresql://ana:hunter2#x@db/clinic",
        "postgresql://ana:hunter2?x@db/clinic",
        "postgresql://ana:1/hunter2@db/clinic",
        "postgresql://ana:1#hunter2@db/clinic",
        "postgresql://ana:1?user=hunter2@db/clinic",
        "postgresql://ana:hunter2@db:port/clinic",
        "postgresql://ana:hunter2@[::1/clinic",
        "postgresql://ana%3Ahunter2@db/clinic",
        "postgresql://db/clinic?Password=hunter2",
        "postgresql://db/clinic?hunter2=1",
        "postgresql://db/clinic?user=ana;password=hunter2",
        "postgresql://db/clinic?options=-cpassword%3Dhunter2",
        "postgresql://db/password%3Dhunter2",
        "postgresql:///clinic?host=ana%3Ahunter2%40db",
        "postgresql+psycopg://ana:hunter2@db/clinic",
        " postgresql://ana:hunter2@db/clinic",
        "postgresql:ana:hunter2@db/clinic",
        "mysql://ana:hunter2@db/clinic",
        "ana:hunter2@db/clinic",
        "host=db password=hunter2",
        "host=db dbname=clinic PASSWORD = hunter2",
    ],
)
def test_an_address_that_may_hide_a_password_is_refused_and_not_repeated(address: str):
    for attempt in (parse_address, without_password, Ledger.open, Ledger.create):
        with pytest.raises(InvalidArgument, match="address of the ledger cannot be read") as refused:
            attempt(address)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["password", "sslpassword", "scram_client_key", "scram_server_key"])
def test_every_secret_of_libpq_is_taken_out(name: str):
    address = parse_address(f"postgresql://ana@db/clinic?{name}={SECRET}&sslmode=require")
    assert isinstance(address, PostgresAddress)
    assert str(address) == "postgresql://ana@db/clinic?sslmode=require"
    assert address.secrets == {name: SECRET}


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana@[::1]:5432,second:5433/clinic?sslmode=require",
        "postgresql://ana%40realm@db/clinic",
        "postgresql://db/clinic?user=ana%40realm&options=-csearch_path%3Dx",
        "postgresql://ana@/clinic?host=/run/postgresql",
    ],
)
def test_an_address_without_a_password_stays_as_it_is(address: str):
    assert str(parse_address(address)) == address


@pytest.mark.parametrize("name", ["clinic.ledger", "what?.ledger", "a#b.ledger", "C:/a.ledger", "a@b.ledger"])
def test_the_name_of_a_file_is_the_name_of_a_file(name: str):
    assert parse_address(name) == Path(name)
    assert without_password(name) == name
