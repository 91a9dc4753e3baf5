"""Hold our migrations as Django knows them, one for each of ours."""
