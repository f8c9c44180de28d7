#!/usr/bin/env python3
"""SQLAlchemy (ORM, reflection, Alembic) against pgsluice, over psycopg 3, psycopg2 and asyncpg: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/python/sqlalchemy_checks.py
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import alembic.operations
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from harness import URL, fails, report, within
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext import asyncio as async_sa

SCHEMA = "drv_sqlalchemy"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Base(orm.DeclarativeBase):
    metadata = sa.MetaData(schema=SCHEMA)


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(80), unique=True)
    tags: orm.Mapped[list[str]] = orm.mapped_column(pg.ARRAY(sa.Text), default=list)
    extra: orm.Mapped[dict] = orm.mapped_column(pg.JSONB, default=dict)
    version: orm.Mapped[int] = orm.mapped_column(default=1)
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")
    __mapper_args__ = {"version_id_col": version}


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(), primary_key=True)
    title: orm.Mapped[str] = orm.mapped_column(index=True, comment="as on the cover")
    kind: orm.Mapped[str] = orm.mapped_column(sa.Enum("novel", "poems", name="book_kind", schema=SCHEMA), default="novel")
    price: orm.Mapped[float | None] = orm.mapped_column(sa.Numeric(8, 2))
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Author.id, ondelete="CASCADE"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_not_negative"),)


@check
def create(engine):
    "create_all: enum, identity, constraints, comments"
    with engine.begin() as c:
        c.execute(sa.text(f"drop schema if exists {SCHEMA} cascade"))
        c.execute(sa.schema.CreateSchema(SCHEMA))
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)  # asks for each whether it is there


@check
def unit_of_work(engine):
    "session: cascades, identity map, refresh, RETURNING, bulk inserts in batches"
    with orm.Session(engine) as s:
        author = Author(name="Ada", tags=["a", "ü'\\"], extra={"k": [1, None]}, books=[Book(title=f"book {i}", price=i) for i in range(50)])
        s.add(author)
        s.commit()
        assert author.id and author.tags == ["a", "ü'\\"] and author.extra == {"k": [1, None]}
        assert len(author.books) == 50
        s.add_all([Author(name=f"bulk {i}") for i in range(2500)])  # insertmanyvalues
        s.commit()
        assert s.scalar(sa.select(sa.func.count()).select_from(Author)) == 2501
        s.execute(sa.insert(Author), [{"name": f"core {i}", "tags": [], "extra": {}, "version": 1} for i in range(100)])
        assert s.scalar(sa.select(sa.func.count()).where(Author.name.like("core %"))) == 100
        s.rollback()
        assert s.scalar(sa.select(sa.func.count()).where(Author.name.like("core %"))) == 0


@check
def loading(engine):
    "lazy, joined and selectin loading; IN lists; get(); yield_per and stream_results"
    with orm.Session(engine) as s:
        assert len(s.scalars(sa.select(Author).where(Author.name == "Ada")).one().books) == 50
    for option in (orm.joinedload, orm.selectinload, orm.subqueryload):
        with orm.Session(engine) as s:
            found = s.scalars(sa.select(Author).options(option(Author.books)).where(Author.id.in_(range(1, 30)))).unique().all()
            assert len(found) == 29 and sum(len(a.books) for a in found) == 50
    with orm.Session(engine) as s:
        assert sum(1 for _ in s.scalars(sa.select(Author).execution_options(yield_per=100))) == 2501
        assert s.get(Author, 1).name == "Ada"
    with engine.connect() as c:
        assert sum(row[0] for row in c.execution_options(stream_results=True, max_row_buffer=50).execute(sa.text("select generate_series(1, 1000)"))) == 500500


@check
def conflicts(engine):
    "nested transactions, unique violations, version counters, upsert, FOR UPDATE"
    with orm.Session(engine) as s:
        with fails(sa.exc.IntegrityError), s.begin_nested():
            s.add(Author(name="Ada"))
            s.flush()
        s.add(Author(name="Bob"))
        s.commit()
    with orm.Session(engine) as s, orm.Session(engine) as t:
        a, b = (x.scalars(sa.select(Author).where(Author.name == "Ada")).one() for x in (s, t))
        a.extra = {"changed": 1}
        s.commit()
        b.extra = {"changed": 2}
        with fails(orm.exc.StaleDataError):
            t.commit()
    with orm.Session(engine) as s:
        upsert = pg.insert(Author).values(name="Ada", tags=["up"], extra={}, version=1)
        upsert = upsert.on_conflict_do_update(index_elements=[Author.name], set_={"tags": upsert.excluded.tags}).returning(Author.tags)
        assert s.scalar(upsert) == ["up"]
        s.commit()
        locked = s.scalars(sa.select(Author).where(Author.name == "Ada").with_for_update(skip_locked=True)).one()
        with orm.Session(engine) as t:
            assert t.scalars(sa.select(Author).where(Author.name == "Ada").with_for_update(skip_locked=True)).first() is None
            with fails(sa.exc.OperationalError, sa.exc.DBAPIError):
                t.scalars(sa.select(Author).where(Author.name == "Ada").with_for_update(nowait=True)).first()
        assert locked.name == "Ada"


@check
def reflection(engine):
    "reflection: tables, columns, keys, indexes, enums, views, comments"
    with engine.begin() as c:
        c.execute(sa.text(f"create view {SCHEMA}.titles as select title from {SCHEMA}.book"))
    inspector = sa.inspect(engine)
    assert set(inspector.get_table_names(SCHEMA)) == {"author", "book"} and inspector.get_view_names(SCHEMA) == ["titles"]
    assert SCHEMA in inspector.get_schema_names() and inspector.has_table("book", SCHEMA) and not inspector.has_table("nothing", SCHEMA)
    assert [e["labels"] for e in inspector.get_enums(SCHEMA)] == [["novel", "poems"]]
    assert inspector.get_foreign_keys("book", SCHEMA)[0]["options"] == {"ondelete": "CASCADE"}
    assert inspector.get_check_constraints("book", SCHEMA)[0]["name"] == "price_not_negative"
    assert inspector.get_unique_constraints("author", SCHEMA)[0]["column_names"] == ["name"]
    assert inspector.get_multi_indexes(SCHEMA)[(SCHEMA, "book")][0]["column_names"] == ["title"]
    reflected = sa.MetaData()
    reflected.reflect(engine, schema=SCHEMA, views=True)
    book = reflected.tables[f"{SCHEMA}.book"]
    assert book.c.title.comment == "as on the cover" and book.c.id.identity is not None and isinstance(book.c.price.type, sa.Numeric)
    with engine.begin() as c:
        c.execute(sa.text(f"drop view {SCHEMA}.titles"))


@check
def migrations(engine):
    "Alembic: operations, batch of DDL in one transaction, autogenerate sees no difference"
    with engine.begin() as c:
        context = MigrationContext.configure(c, opts={"include_schemas": True, "version_table_schema": SCHEMA, "include_name": lambda name, kind, parents: kind != "schema" or name == SCHEMA})
        context._ensure_version_table()
        op = alembic.operations.Operations(context)
        op.add_column("author", sa.Column("born", sa.Date, nullable=True), schema=SCHEMA)
        op.create_index("author_born", "author", ["born"], schema=SCHEMA)
        op.alter_column("author", "born", type_=sa.DateTime(timezone=True), schema=SCHEMA)
        op.bulk_insert(sa.table("author", sa.column("name"), sa.column("tags", pg.ARRAY(sa.Text)), sa.column("extra", pg.JSONB), sa.column("version"), schema=SCHEMA), [{"name": f"migrated {i}", "tags": [], "extra": {}, "version": 1} for i in range(10)])
        assert {change[0] for change in compare_metadata(context, Base.metadata) if isinstance(change, tuple)} >= {"remove_column", "remove_index"}
        op.drop_index("author_born", "author", schema=SCHEMA)
        op.drop_column("author", "born", schema=SCHEMA)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.execute(sa.text(f"create index concurrently author_tags on {SCHEMA}.author using gin (tags)"))
        c.execute(sa.text(f"drop index concurrently {SCHEMA}.author_tags"))
    with engine.connect() as c:
        context = MigrationContext.configure(c, opts={"include_schemas": True, "version_table_schema": SCHEMA, "include_name": lambda name, kind, parents: kind != "schema" or name == SCHEMA})
        assert compare_metadata(context, Base.metadata) == []


@check
def isolation(engine):
    "isolation levels, read only, schema_translate_map, options=-c search_path"
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=level, postgresql_readonly=level == "REPEATABLE READ") as c:
            assert c.scalar(sa.text("show transaction_isolation")).upper() == level.replace("AUTOCOMMIT", "READ COMMITTED")
            assert c.scalar(sa.text("show transaction_read_only")) == ("on" if level == "REPEATABLE READ" else "off")
    with engine.connect() as c:
        assert c.scalar(sa.text("show transaction_isolation")) == "read committed" and c.scalar(sa.text("show transaction_read_only")) == "off"
        nowhere = sa.Table("author", sa.MetaData(), sa.Column("id", sa.Integer), schema="nowhere")
        assert c.execution_options(schema_translate_map={"nowhere": SCHEMA}).scalar(sa.select(sa.func.count()).select_from(nowhere)) > 2500
    with sa.create_engine(engine.url.update_query_dict({"options": f"-csearch_path={SCHEMA}"})).connect() as c:
        assert c.dialect.default_schema_name == SCHEMA and sa.inspect(c).has_table("author")
        assert c.scalar(sa.text("select count(*) from author")) > 2500


@check
def two_phase(engine):
    "two-phase transaction"
    if engine.driver == "asyncpg":
        return
    with engine.connect() as c:
        transaction = c.begin_twophase()
        c.execute(sa.insert(Author), {"name": f"twophase {engine.driver}", "tags": [], "extra": {}, "version": 1})
        transaction.prepare()
        transaction.commit()
        assert c.scalar(sa.select(sa.func.count()).where(Author.name == f"twophase {engine.driver}")) == 1


@check
def lost(engine):
    "pool_pre_ping: an engine goes on after its server sessions ended"
    with fails(sa.exc.DBAPIError), engine.connect() as c:
        c.execute(sa.text("select pg_terminate_backend(pg_backend_pid())"))
        c.execute(sa.text("select 1"))
    for i in range(10):
        with engine.connect() as c:
            assert c.scalar(sa.select(sa.literal(i))) == i


@check
def many_threads(engine):
    "30 threads, read your writes"

    def client(number):
        for i in range(10):
            with orm.Session(engine) as s:
                s.add(Author(name=f"{engine.driver} {number} {i}"))
                s.commit()
            with orm.Session(engine) as s:
                assert s.scalar(sa.select(sa.func.count()).where(Author.name.like(f"{engine.driver} {number} %"))) == i + 1

    with ThreadPoolExecutor(30) as threads:
        list(threads.map(client, range(30)))


async def asynchronous(**options):
    engine = async_sa.create_async_engine(URL.replace("postgresql:", "postgresql+asyncpg:"), pool_size=5, max_overflow=25, pool_pre_ping=True, **options)
    make = async_sa.async_sessionmaker(engine, expire_on_commit=False)
    async with engine.begin() as c:
        await c.run_sync(lambda c: Base.metadata.drop_all(c))
        await c.run_sync(lambda c: Base.metadata.create_all(c))
        assert set(await c.run_sync(lambda c: sa.inspect(c).get_table_names(SCHEMA))) >= {"author", "book"}

    async def client(number):
        for i in range(10):
            async with make() as s:
                s.add(Author(name=f"async {number} {i}", books=[Book(title="x", kind="poems", price=1)]))
                await s.commit()
            async with make() as s:
                found = (await s.scalars(sa.select(Author).options(orm.selectinload(Author.books)).where(Author.name.like(f"async {number} %")))).all()
                assert len(found) == i + 1 and all(author.books[0].kind == "poems" for author in found)

    await asyncio.gather(*(client(number) for number in range(30)))
    async with engine.connect() as c:
        assert sum([row[0] async for row in await c.stream(sa.text("select generate_series(1, 1000)"))]) == 500500
    with within(5), fails(asyncio.TimeoutError):
        async with engine.connect() as c:
            await asyncio.wait_for(c.execute(sa.text("select pg_sleep(30)")), 0.3)
    async with make() as s:
        assert await s.scalar(sa.select(sa.func.count()).select_from(Book)) == 300
    await engine.dispose()


def main():
    failed = 0

    def attempt(name, work):
        nonlocal failed
        named = type("Named", (), {"__doc__": name})
        try:
            work()
            report(named)
        except Exception as error:
            failed = 1
            report(named, error)

    for driver, options in {"psycopg": {}, "psycopg2": {"use_insertmanyvalues": True}}.items():
        engine = sa.create_engine(URL.replace("postgresql:", f"postgresql+{driver}:"), pool_pre_ping=True, pool_size=5, max_overflow=25, connect_args={"application_name": "drv"}, **options)
        for function in CHECKS:
            attempt(f"{driver}: {function.__doc__}", lambda function=function: function(engine))
        engine.dispose()
    # Behind a pooler people turn asyncpg's caches off, or give every statement its own name; all must do.
    for name, options in {
        "default caches": {},
        "no caches": {"connect_args": {"statement_cache_size": 0, "prepared_statement_cache_size": 0}},
        "names of one's own": {"connect_args": {"prepared_statement_name_func": lambda: f"__drv_{uuid4()}__"}},
    }.items():
        attempt(f"asyncpg, {name}: AsyncSession, reflection, stream, timeout, 30 tasks", lambda options=options: asyncio.run(asynchronous(**options)))
    with sa.create_engine(URL.replace("postgresql:", "postgresql+psycopg:")).begin() as c:
        c.execute(sa.text(f"drop schema if exists {SCHEMA} cascade"))
    sys.exit(failed)


main()
