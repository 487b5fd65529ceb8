"""Where ledger entries are kept: an SQLite file, or a PostgreSQL database by its URL.

Both are used the same way: one table that is only ever added to, and one writer at a time from its first read to its
commit. SQLite's `BEGIN IMMEDIATE` and PostgreSQL's exclusive lock on the table see to that, so a decision taken on
what was read still holds when its entry is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from schemas.errors import IntegrityFailed, RequestRefused

_LOCK_TIMEOUT_S = 60

_metadata = MetaData()
_entries = Table(
    "fabrica_ledger",
    _metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)


class Database:
    """A table of numbered lines with their hashes; knows nothing of budgets.

    Parameters
    ----------
    place : Path or str
        An SQLite file, or the URL of a PostgreSQL database (`postgresql://...`).

    Raises
    ------
    RequestRefused
        The URL is not one of a database that can hold a ledger.
    """

    def __init__(self, place: Path | str) -> None:
        self.path = place if isinstance(place, Path) else None
        self._url = URL.create("sqlite", database=str(place)) if isinstance(place, Path) else _postgresql_url(place)

    @property
    def name(self) -> str:
        """How messages call it, without a password."""
        return str(self.path) if self.path is not None else self._url.render_as_string(hide_password=True)

    def exists(self) -> bool:
        """Whether anything was ever written here."""
        if self.path is not None and not self.path.exists():
            return False
        with self._connected() as connection:
            return inspect(connection).has_table(_entries.name)

    def rows(self) -> list[tuple[int, str, str]]:
        """Every line in order: its number, content and hash."""
        if self.path is not None and not self.path.exists():
            return []
        with self._connected() as connection:
            return _rows(connection) if inspect(connection).has_table(_entries.name) else []

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """The only writer, until the end of the block; its lines are durable then, or none of them if it raised."""
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RequestRefused(f"{self.path}: the ledger cannot be created ({error.strerror})") from None
        with self._connected(begin="BEGIN IMMEDIATE") as connection:
            if connection.dialect.name == "postgresql":
                # creating the table races with itself; the advisory lock is let go at the transaction's end
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('fabrica_ledger'))"))
            _metadata.create_all(connection)
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"LOCK TABLE {_entries.name} IN EXCLUSIVE MODE"))
            yield Writer(connection)

    @contextmanager
    def _connected(self, begin: str = "BEGIN") -> Iterator[Connection]:
        """A connection in one transaction, committed at the end if nothing was raised."""
        engine = self._engine(begin)
        try:
            with engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise IntegrityFailed(
                f"{self.name}: the ledger cannot be read or written ({type(error).__name__}); is it a ledger, can it "
                "be reached, and may you write to it?"
            ) from None
        finally:
            engine.dispose()

    def _engine(self, begin: str) -> Engine:
        if self.path is None:
            return create_engine(self._url, connect_args={"connect_timeout": _LOCK_TIMEOUT_S})
        engine = create_engine(self._url, connect_args={"timeout": _LOCK_TIMEOUT_S})
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine


class Writer:
    """Reads and adds lines while no other process can."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self) -> list[tuple[int, str, str]]:
        """Every line in order: its number, content and hash."""
        return _rows(self._connection)

    def append(self, sequence: int, content: str, line_hash: str) -> None:
        """Add a line."""
        self._connection.execute(_entries.insert().values(sequence=sequence, content=content, hash=line_hash))


def _rows(connection: Connection) -> list[tuple[int, str, str]]:
    query = select(_entries.c.sequence, _entries.c.content, _entries.c.hash).order_by(_entries.c.sequence)
    return [(row.sequence, row.content, row.hash) for row in connection.execute(query)]


def _postgresql_url(place: str) -> URL:
    try:
        url = make_url(place)
        if url.get_backend_name() != "postgresql":
            raise RequestRefused("FABRICA_LEDGER_URL: must be the URL of a PostgreSQL database (postgresql://...)")
        url = url.set(drivername="postgresql+psycopg")
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        raise RequestRefused("FABRICA_LEDGER_URL: is not a database URL (postgresql://user@host/name)") from None
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise RequestRefused(
            "FABRICA_LEDGER_URL: PostgreSQL needs the driver psycopg; install fabrica[postgresql]"
        ) from None
    return url


def _sqlite_connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    connection.execute("PRAGMA synchronous = FULL")
