"""
Be an app of a Django project: ``INSTALLED_APPS = [..., "webhook_inbox.django"]``.

Migrations, checks, a read-only admin and ``manage.py webhook_inbox``. None of it is needed to receive: that is
``inbox.django_view()`` and ``Inbox(Django("default"))``.
"""
