-- Say whether the migrations table is there: (true,) or (false,). %(schema)s: the schema's name, unquoted.
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = %(schema)s AND c.relname = 'migrations' AND c.relkind = 'r')
