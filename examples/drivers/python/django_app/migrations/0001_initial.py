import django.contrib.postgres.fields
import django.db.models.functions
from django.contrib.postgres.operations import HStoreExtension
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        HStoreExtension(),
        migrations.CreateModel(
            name="Author",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40)),
                ("tags", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
                ("extra", models.JSONField(default=dict)),
                ("joined", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Book",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.TextField(db_comment="as on the cover")),
                ("price", models.DecimalField(decimal_places=2, max_digits=8, null=True)),
                ("author", models.ForeignKey(on_delete=models.CASCADE, related_name="books", to="django_app.author")),
                ("readers", models.ManyToManyField(related_name="reads", to="django_app.author")),
                ("length", models.GeneratedField(db_persist=True, expression=django.db.models.functions.Length("title"), output_field=models.IntegerField())),
            ],
        ),
    ]
