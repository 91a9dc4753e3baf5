"""Hold what ``manage.py`` runs, a file a command."""
