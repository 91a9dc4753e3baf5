"""Receive: POST /webhooks/orders."""

from __future__ import annotations

from django.urls import path
from shop.webhooks import inbox

urlpatterns = [path("webhooks/<str:endpoint>", inbox.django_view())]
