import django.contrib.postgres.fields.hstore
from django.db import migrations, models


def fill(apps, schema_editor):
    author = apps.get_model("django_app", "Author")
    author.objects.using(schema_editor.connection.alias).bulk_create([author(name=f"migrated {i}", rank=i) for i in range(100)])


def empty(apps, schema_editor):
    schema_editor.execute("truncate django_app_author cascade")


class Migration(migrations.Migration):
    dependencies = [("django_app", "0001_initial")]
    operations = [
        migrations.AddField("author", "words", django.contrib.postgres.fields.hstore.HStoreField(default=dict)),
        migrations.AddField("author", "rank", models.IntegerField(default=0, db_index=True)),
        migrations.AlterField("author", "name", models.CharField(max_length=80, unique=True)),
        migrations.RunPython(fill, empty),
        migrations.AddConstraint("book", models.CheckConstraint(condition=models.Q(price__gte=0), name="drv_price_not_negative")),
        migrations.RunSQL("create view drv_titles as select title from django_app_book", "drop view drv_titles"),
    ]
