"""What django_checks.py works with."""

from django.contrib.postgres.fields import ArrayField, HStoreField
from django.contrib.postgres.indexes import GinIndex
from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=80, unique=True)
    tags = ArrayField(models.TextField(), default=list)
    extra = models.JSONField(default=dict)
    words = HStoreField(default=dict)
    joined = models.DateTimeField(auto_now_add=True)
    rank = models.IntegerField(default=0, db_index=True)

    class Meta:
        indexes = [GinIndex(fields=["tags"], name="drv_author_tags")]


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.TextField(db_comment="as on the cover")
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    readers = models.ManyToManyField(Author, related_name="reads")
    length = models.GeneratedField(expression=models.functions.Length("title"), output_field=models.IntegerField(), db_persist=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(price__gte=0), name="drv_price_not_negative")]
