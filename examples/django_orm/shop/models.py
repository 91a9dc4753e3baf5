"""What the shop keeps."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """Hold one paid order, and the event that told of it."""

    event_id = models.TextField()
    shopify_id = models.BigIntegerField()
    total = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)

    def __str__(self) -> str:
        return f"order {self.shopify_id}"
