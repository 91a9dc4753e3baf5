"""Make the table of orders."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Bring the shop's one table."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event_id", models.TextField()),
                ("shopify_id", models.BigIntegerField()),
                ("total", models.DecimalField(decimal_places=2, max_digits=12)),
                ("currency", models.CharField(max_length=3)),
            ],
        ),
    )
