"""Addresses of PostgreSQL databases, with the password taken out, and connections to them.

An address is printed, and stored in the folders of runs. So the password in one lives in the memory of the
process that was given it, and nowhere else. Other processes find theirs as every PostgreSQL client does: in
the variable PGPASSWORD, or in the file `~/.pgpass`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from reticent.core.errors import InvalidArgument, Unavailable

_SCHEMES = ("postgresql", "postgres")
_SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
# What libpq knows besides. Everything else in a query may be a misspelt password.
_PARAMETERS = frozenset(
    re.split(
        r"\s+",
        """host hostaddr port dbname user passfile require_auth channel_binding connect_timeout
        client_encoding options application_name fallback_application_name keepalives keepalives_idle
        keepalives_interval keepalives_count tcp_user_timeout sslmode sslnegotiation sslcompression sslcert
        sslkey sslcertmode sslrootcert sslcrl sslcrldir sslsni ssl_min_protocol_version
        ssl_max_protocol_version requirepeer krbsrvname gsslib gssencmode gssdelegation service
        target_session_attrs load_balance_hosts""",
    )
)
_PLACE = re.compile(r"(\[[0-9A-Za-z:.%]+\]|[^\s:\[\]]*)(:[0-9]{0,5})?")  # one host and its port
# Where a password may be that `parse_uri` would not take out.
_HIDDEN_PASSWORD = re.compile(r":.*@|;|(pass\w*|pwd|secret|\w*_key)\s*[=:]", re.IGNORECASE | re.DOTALL)
_NOT_A_FILE = re.compile(
    r"://|^\s*postgres\w*\W*:|^[^/]*:.*@|(^|\s|[?&;])(pass\w*|pwd|\w*_key|host|dbname)\s*=",
    re.IGNORECASE | re.DOTALL,
)

_passwords: dict[str, dict[str, str]] = {}  # by address without it


class ParsedUri(NamedTuple):
    """An address for libpq, without a password; and the parameters in it that are the caller's own."""

    uri: str
    own: Mapping[str, str]


def is_database(text: str) -> bool:
    """Whether a text is the address of a database, not the name of a file."""
    return text.partition("://")[0].lower() in _SCHEMES and "://" in text


def name_of_place(text: str) -> str:
    """A short name for where data are: of a file, or of a database.

    >>> name_of_place("tables/visits.csv"), name_of_place("postgresql://ana@/clinic?host=/run/postgresql")
    ('visits.csv', 'clinic')
    """
    return (unquote(urlsplit(text).path).strip("/") or "postgres") if is_database(text) else Path(text).name


def looks_like_database(text: str) -> bool:
    """Whether a text may be an address, with a password in it, that is written in another way."""
    return bool(_NOT_A_FILE.search(text))


def parse_uri(text: str, *, whose: str, own: Collection[str] = ()) -> ParsedUri:
    """Takes the password out of an address; this process still knows it.

    Args:
        whose: what it is the address of, for a message.
        own: names of parameters that are not for libpq.

    Raises:
        InvalidArgument: it is not an address, or may hold a password where none is taken out. The message
            repeats nothing of it.

    Example:
        >>> parse_uri("postgresql://ana:secret@db/clinic", whose="the table").uri
        'postgresql://ana@db/clinic'
    """
    try:
        parts = urlsplit(text)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise not_an_address(whose) from None
    user, _, place = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    if (why := _problem(parts, user, place, given, own)) is not None:
        raise not_an_address(whose, why)
    secrets = {name: value for name, value in given if name in _SECRETS and value}
    if password:
        secrets["password"] = unquote(password)
    kept = [(name, value) for name, value in given if name not in (*_SECRETS, *own)]
    query = urlencode(kept, quote_via=quote, safe="/")
    netloc = f"{user}@{place}" if user else place
    uri = urlunsplit(("postgresql", netloc, parts.path or "/", query, ""))
    if not netloc:  # urlunsplit drops the slashes of an empty host
        uri = f"postgresql://{uri.partition(':')[2].removeprefix('//')}"
    if secrets:
        _passwords[uri] = secrets
    return ParsedUri(uri, {name: value for name, value in given if name in own})


def without_password(text: str, *, whose: str = "the table") -> str:
    """An address as it may be kept and printed; anything else as it is.

    Raises:
        InvalidArgument: it may be an address that holds a password, written in another way.
    """
    if is_database(text):
        return parse_uri(text, whose=whose).uri
    if "://" not in text and looks_like_database(text) and not Path(text).exists():
        raise not_an_address(whose, "It looks like a database's, but does not start with postgresql://.")
    return text


def secrets_of(uri: str) -> dict[str, str]:
    """What this process was told besides an address: a password, or nothing."""
    return _passwords.get(uri, {})


def _problem(
    parts: SplitResult, user: str, place: str, given: list[tuple[str, str]], own: Collection[str]
) -> str | None:
    """Why a part of an address that is kept may be, or hold, a password; None if none may.

    A `/`, `?` or `#` inside a password ends the host too early. What is left of the password then passes
    for a port, and the rest of it for a database.
    """
    if parts.fragment or "@" in parts.path + parts.query:
        return "A password in it holds a character that ends the host."
    if not all(_PLACE.fullmatch(one) for one in place.split(",")):
        return "Its port is not a number, or its host is not a name."
    for number, (name, _) in enumerate(given, start=1):
        if name not in _PARAMETERS and name not in _SECRETS and name not in own:
            return f"PostgreSQL does not know parameter {number} of its query."
    kept = [value for name, value in given if name not in _SECRETS]
    database = unquote(parts.path)
    if ":" in unquote(user) or "=" in database or any(map(_HIDDEN_PASSWORD.search, [database, *kept])):
        return "It may hold a password in a part that is not for one."
    return None


def not_an_address(whose: str, why: str = "") -> InvalidArgument:
    """An error that repeats nothing of the address: any part of it may be a password."""
    return InvalidArgument(
        f"The address of {whose} cannot be read. {why}".rstrip(),
        remedy="Name a file, or write postgresql://USER@HOST:PORT/DATABASE, "
        "with @ / ? # : inside a part as %40 %2F %3F %23 %3A. Better, set PGPASSWORD.",
    )


def connect(uri: str, *, timeout: float, whose: str) -> Any:
    """A connection whose transactions are begun explicitly.

    Args:
        timeout: seconds to wait for the server.
    """
    psycopg = psycopg_for(whose)
    try:
        known = psycopg.conninfo.conninfo_to_dict(uri)
    except psycopg.ProgrammingError as error:
        raise InvalidArgument(
            f"The address of {whose}, {uri}, cannot be read: {first_line(error, uri)}.",
            remedy="Write it as postgresql://USER@HOST:PORT/DATABASE.",
        ) from None
    known = {"connect_timeout": max(2, round(timeout)), "application_name": "reticent", **known}
    return psycopg.connect(
        **{**known, **secrets_of(uri)}, autocommit=True, prepare_threshold=None, client_encoding="utf8"
    )


def first_line(error: Exception, uri: str) -> str:
    """The first line of what the driver says, without a password."""
    text = " ".join(str(error).split("\n")[0].split())[:200] or type(error).__name__
    for secret in secrets_of(uri).values():
        text = text.replace(secret, "***")
    return text.rstrip(".")


def psycopg_for(whose: str) -> Any:
    """The driver.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise Unavailable(
            f"PostgreSQL, for {whose}, needs the package 'psycopg', which is not installed.",
            remedy="Install it: pip install 'reticent[postgres]'",
        ) from None
    return psycopg
