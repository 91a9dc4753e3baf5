"""Describe a schema as its database knows it, so that two of them can be compared."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

Snapshot: TypeAlias = dict[str, list[tuple[Any, ...]]]

#: What is compared, each by a query with one parameter, the schema's name. No oid and no owner is told.
QUERIES = {
    "relations": """
        SELECT c.relname, c.relkind, c.relpersistence, c.reloptions, pg_get_expr(c.relpartbound, c.oid)
        FROM pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) ORDER BY 1
    """,
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
               a.attstorage, a.attcompression, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) ORDER BY 1, 2
    """,
    "constraints": """
        SELECT c.relname, k.conname, pg_get_constraintdef(k.oid), k.condeferrable, k.condeferred
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE k.connamespace = to_regnamespace(quote_ident(%s)) ORDER BY 1, 2
    """,
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1, 2
    """,
    "triggers": """
        SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND NOT t.tgisinternal ORDER BY 1, 2
    """,
    "functions": """
        SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace(quote_ident(%s)) ORDER BY 1
    """,
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = %s ORDER BY 1",
    "comments": """
        SELECT d.classoid::regclass::text, coalesce(c.relname, k.conname), d.objsubid, d.description
        FROM pg_description d
        LEFT JOIN pg_class c ON d.classoid = 'pg_class'::regclass AND c.oid = d.objoid
        LEFT JOIN pg_constraint k ON d.classoid = 'pg_constraint'::regclass AND k.oid = d.objoid
        WHERE coalesce(c.relnamespace, k.connamespace) = to_regnamespace(quote_ident(%s)) ORDER BY 1, 2, 3
    """,
}


def snapshot(dsn: str, schema: str) -> Snapshot:
    """Everything in *schema* that its migrations have made, and which of them it says were applied."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET search_path = ''")  # so that definitions name every schema
        found = {what: conn.execute(query, [schema]).fetchall() for what, query in QUERIES.items()}
        text = psycopg.sql.SQL("SELECT version, name, serves_from FROM {}.migrations ORDER BY version")
        found["migrations"] = conn.execute(text.format(psycopg.sql.Identifier(schema))).fetchall()
        return found
