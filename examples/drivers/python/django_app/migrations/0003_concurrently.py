from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("django_app", "0002_grow")]
    operations = [AddIndexConcurrently("author", GinIndex(fields=["tags"], name="drv_author_tags"))]
