#!/usr/bin/env python3
"""Django's ORM, migrations and commands against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/python/django_checks.py
"""

import io
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import django
from django.conf import settings
from harness import CHECKS, WHERE, check, fails, report, within

ADDRESS = {
    "ENGINE": "django.db.backends.postgresql", "NAME": WHERE.path[1:], "USER": WHERE.username, "PASSWORD": WHERE.password,
    "HOST": WHERE.hostname, "PORT": WHERE.port, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True,
}
settings.configure(
    SECRET_KEY="for a test",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.postgres", "django_app"],
    CACHES={"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "drv_cache"}},
    # The settings that people choose, each as a database of its own.
    DATABASES={
        "default": ADDRESS,
        "bound": ADDRESS | {"OPTIONS": {"server_side_binding": True, "prepare_threshold": 1, "application_name": "drv"}},
        "pooled": ADDRESS | {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False, "OPTIONS": {"pool": {"min_size": 2, "max_size": 4}}},
        "strict": ADDRESS | {"ATOMIC_REQUESTS": True, "OPTIONS": {"isolation_level": 4, "options": "-c search_path=public,pg_catalog -c statement_timeout=7s", "connect_timeout": 5}},
        "brief": ADDRESS | {"CONN_MAX_AGE": 0, "DISABLE_SERVER_SIDE_CURSORS": True, "TIME_ZONE": "Asia/Tokyo"},
    },
)
django.setup()

from django.contrib.auth.models import Permission, User
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg
from django.contrib.postgres.search import SearchVector
from django.core.cache import cache
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, OperationalError, connection, connections, models, transaction
from django.db.models import Count, F, Prefetch, Q, Window
from django.db.models.functions import Rank
from django_app.models import Author, Book

TABLES = "django_app_book_readers, django_app_book, django_app_author, drv_cache, django_session, auth_user_groups, auth_user_user_permissions, auth_group_permissions, auth_user, auth_group, auth_permission, django_content_type, django_migrations"


def command(*arguments, **options):
    out = io.StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


def clean():
    with connection.cursor() as cursor:
        cursor.execute(f"drop view if exists drv_titles; drop table if exists {TABLES}; drop extension if exists hstore cascade")


@check
def migrate():
    "migrate forwards, backwards, forwards: extension, atomic and not, data, concurrent index"
    clean()
    command("migrate", verbosity=0)
    assert Author.objects.count() == 100
    command("migrate", "django_app", "0001", verbosity=0)
    command("migrate", verbosity=0)
    assert "[X] 0003_concurrently" in command("showmigrations")
    assert Permission.objects.filter(codename="add_book").exists()
    command("makemigrations", "--check", "--dry-run", verbosity=0)
    command("check", databases=list(settings.DATABASES))
    assert "CREATE TABLE" in command("sqlmigrate", "django_app", "0001")


@check
def introspection():
    "introspection: inspectdb, tables, constraints, sequences, server_version, features"
    text = command("inspectdb", "--include-views")
    assert "class DjangoAppBook(" in text and "class DrvTitles(" in text and "db_comment='as on the cover'" in text
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "django_app_book")
        assert found["drv_price_not_negative"]["check"] and any(c["foreign_key"] == ("django_app_author", "id") for c in found.values())
        assert connection.introspection.get_sequences(cursor, "django_app_author")[0]["column"] == "id"
        assert connection.introspection.get_primary_key_columns(cursor, "django_app_book") == ["id"]
    assert connection.pg_version >= 140000 and connection.is_usable()


def every_database(function):
    """The same work over every database of the settings."""

    def work():
        for alias in settings.DATABASES:
            try:
                function(alias)
            except Exception as error:
                error.add_note(f"database {alias}")
                raise

    work.__doc__ = function.__doc__
    return check(work)


@every_database
def objects(alias):
    "objects: create, bulk, update, F, upsert, delete with cascades, refresh"
    authors = Author.objects.using(alias)
    ada = authors.create(name=f"Ada {alias}", tags=["a", "ü'\\"], extra={"k": [1, None]}, words={"a": None, "b": "c"})
    ada.refresh_from_db()
    assert (ada.tags, ada.extra, ada.words) == (["a", "ü'\\"], {"k": [1, None]}, {"a": None, "b": "c"})
    Book.objects.using(alias).bulk_create([Book(author=ada, title=f"book {i}", price=i) for i in range(1000)], batch_size=100)
    assert ada.books.aggregate(n=Count("*"), top=models.Max("price"))["n"] == 1000
    assert ada.books.filter(price__lt=10).update(price=F("price") + 100) == 10
    assert ada.books.filter(price__gte=1000).count() == 0 and ada.books.filter(price__gte=100).count() == 910
    authors.bulk_create([Author(name=f"Ada {alias}", rank=7)], update_conflicts=True, unique_fields=["name"], update_fields=["rank"])
    ada.refresh_from_db()
    assert ada.rank == 7
    assert authors.get_or_create(name=f"Ada {alias}")[1] is False and authors.update_or_create(name=f"Ada {alias}", defaults={"rank": 8})[0].rank == 8
    ada.books.first().readers.add(*authors.filter(name__startswith="migrated")[:20])
    books = list(Book.objects.using(alias).select_related("author").prefetch_related(Prefetch("readers", authors.order_by("name"))).filter(author=ada).order_by("pk")[:50])
    assert sum(len(book.readers.all()) for book in books) == 20
    assert authors.in_bulk([ada.pk])[ada.pk] == ada and authors.filter(tags__contains=["a"], words__b="c", extra__k__0=1).get() == ada
    assert ada.books.annotate(place=Window(Rank(), order_by="price")).values_list("place", flat=True).count() == 1000
    assert authors.aggregate(all=ArrayAgg("rank", filter=Q(rank__gt=97)), text=StringAgg("name", ",", filter=Q(name__startswith="Ada")))["text"]
    assert authors.annotate(words_in=SearchVector("name")).filter(words_in="ada", name=f"Ada {alias}").exists()
    assert ada.books.first().length == len(ada.books.first().title)
    assert ada.delete()[0] == 1021
    assert not authors.filter(name__startswith="Ada").exists()


@every_database
def transactions(alias):
    "atomic, savepoints, on_commit, IntegrityError inside atomic, durable, select_for_update"
    authors = Author.objects.using(alias)
    done = []
    with transaction.atomic(using=alias):
        authors.create(name="outer")
        with fails(IntegrityError), transaction.atomic(using=alias):
            authors.create(name="outer")
        transaction.on_commit(lambda: done.append(authors.filter(name="outer").exists()), using=alias)
        assert authors.select_for_update(skip_locked=True).get(name="outer") and not done
    assert done == [True]
    with fails(ZeroDivisionError), transaction.atomic(using=alias, durable=True):
        authors.filter(name="outer").delete()
        raise ZeroDivisionError
    with fails(transaction.TransactionManagementError), transaction.atomic(using=alias):
        with fails(IntegrityError):
            authors.create(name="outer")
        authors.count()
    authors.get(name="outer").delete()


@every_database
def iterating(alias):
    "iterator(): server-side cursors, WITH HOLD outside a transaction, abandoned half-way"
    authors = Author.objects.using(alias).filter(name__startswith="migrated").order_by("pk")
    assert len(list(authors.iterator(chunk_size=7))) == 100
    with transaction.atomic(using=alias):
        assert len(list(authors.iterator(chunk_size=7))) == 100
    half = authors.iterator(chunk_size=3)
    assert next(half).name == "migrated 0"
    half.close()
    both = zip(authors.iterator(chunk_size=10), authors.reverse().iterator(chunk_size=9))
    assert sum(a.rank + b.rank for a, b in both) == 99 * 100
    assert len(list(authors.prefetch_related("books").iterator(chunk_size=20))) == 100


@every_database
def settings_hold(alias):
    "options of the database hold, connection after connection"
    for _ in range(3):
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("select current_setting('timezone'), current_setting('statement_timeout'), current_setting('transaction_isolation')")
            zone, limit, level = cursor.fetchone()
        assert zone == ("Asia/Tokyo" if alias == "brief" else "UTC"), zone
        assert (limit, level) == (("7s", "serializable") if alias == "strict" else ("0", "read committed")), (limit, level)
        connections[alias].close()


@check
def commands():
    "dumpdata, loaddata, flush, createcachetable, the cache, sequences reset"
    Book.objects.create(author=Author.objects.create(name="dumped"), title="t", price=1)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "all.json")
        call_command("dumpdata", "django_app", output=file, verbosity=0)
        before = Author.objects.count()
        call_command("flush", interactive=False, verbosity=0)
        assert Author.objects.count() == 0
        call_command("loaddata", file, verbosity=0)
        assert Author.objects.count() == before
    assert Author.objects.create(name="after").pk
    call_command("createcachetable", verbosity=0)
    for i in range(50):
        cache.set(f"key_{i}", {"v": i}, 60)
        assert cache.get(f"key_{i}") == {"v": i}
    assert cache.incr("counter", 1) if cache.add("counter", 1) else False
    assert len(cache.get_many([f"key_{i}" for i in range(50)])) == 50
    assert User.objects.create_user("bob", password="x").check_password("x")


@check
def copying():
    "psycopg's COPY through Django's cursor"
    with connection.cursor() as cursor:
        with cursor.copy("copy django_app_author (name, tags, extra, words, joined, rank) from stdin") as stream:
            for i in range(1000):
                stream.write_row((f"copied {i}", ["x"], "{}", "", "now", i))
    assert Author.objects.filter(name__startswith="copied").count() == 1000


@check
def recovery():
    "errors, statement timeout, CONN_HEALTH_CHECKS after the server ended the session"
    with connection.cursor() as cursor:
        with fails(DatabaseError):
            cursor.execute("selec")
        cursor.execute("set statement_timeout = 200")
        with within(5), fails(OperationalError):
            cursor.execute("select pg_sleep(30)")
        cursor.execute("reset statement_timeout")
        with fails(OperationalError):
            cursor.execute("select pg_terminate_backend(pg_backend_pid())")
            cursor.execute("select 1")
    connection.close_if_unusable_or_obsolete()
    assert Author.objects.count() > 1000


@check
def many_threads():
    "30 threads, a connection each, read your writes"

    def client(number):
        try:
            for i in range(10):
                with transaction.atomic():
                    Author.objects.create(name=f"thread {number} {i}")
                assert Author.objects.filter(name__startswith=f"thread {number} ").count() == i + 1
        finally:
            connections.close_all()

    with ThreadPoolExecutor(30) as threads:
        list(threads.map(client, range(30)))


def main():
    failed = 0
    for function in CHECKS:
        try:
            function()
            report(function)
        except Exception as error:
            failed = 1
            report(function, error)
    clean()
    for alias in settings.DATABASES:
        connections[alias].close()
        connections[alias].close_pool()
    sys.exit(failed)


main()
