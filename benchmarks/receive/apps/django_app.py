"""Receive with Django: a plain view, Stripe's own library, ``get_or_create``; the whole project in one module."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

import django
import stripe
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]


def database(url: str) -> dict[str, Any]:
    """Give Django's form of *url*, which names a socket's folder; connections are kept."""
    parts = urlsplit(url)
    place = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username,
        "HOST": place["host"],
        "PORT": place["port"],
        "CONN_MAX_AGE": None,
    }


settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={"default": database(os.environ["DATABASE_URL"])},
    ROOT_URLCONF=__name__,
    SECRET_KEY="benchmark",  # noqa: S106 - signs nothing
    USE_TZ=True,
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
)
django.setup()

from benchmarks.receive.apps.django_model import WebhookEvent  # noqa: E402 - a model needs the settings


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Record the event, unless it is known."""
    try:
        event = stripe.Webhook.construct_event(request.body, request.headers["Stripe-Signature"], SECRET)
    except (ValueError, stripe.SignatureVerificationError):
        return HttpResponse(status=400)
    WebhookEvent.objects.get_or_create(id=event.id, defaults={"type": event.type, "payload": event.to_dict()})
    return HttpResponse(status=200)


urlpatterns = [path("stripe", receive)]
app = get_wsgi_application()
