"""Hold what ``manage.py`` runs."""
