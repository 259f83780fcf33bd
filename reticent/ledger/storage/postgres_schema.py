"""What a ledger is made of in PostgreSQL: a table, triggers, three roles and their rights.

The table and the chain are those of the SQLite file. The database itself keeps the rights apart:

    NAME_owner      appends any entry
    NAME_analyst    appends charges, and says once what the data of a dataset are
    NAME_auditor    reads

NAME is the schema. No role may change or delete an entry. Triggers refuse it to administrators too, as long
as they leave the triggers on, and check that each entry continues the chain, its hash included.
"""

from __future__ import annotations

from typing import NamedTuple

from reticent.ledger.storage.interface import VERSION

COMMENT = f"ledger of reticent, schema version {VERSION}"

_FUNCTIONS = {
    # As Python's json.dumps writes the list: that is what was hashed.
    "only_append": """
DECLARE last record;
BEGIN
  SELECT sequence, hash INTO last FROM {schema}.entries ORDER BY sequence DESC LIMIT 1;
  IF NEW.sequence IS DISTINCT FROM coalesce(last.sequence, 0) + 1
     OR NEW.previous IS DISTINCT FROM coalesce(last.hash, repeat('0', 64))
     OR NEW.payload !~ '^[ -~]*$' OR NEW.kind !~ '^[a-z]+$' OR NEW.time !~ '^[0-9T:.+-]+$'
     OR NEW.hash IS DISTINCT FROM encode(sha256(convert_to(
          '["' || NEW.previous || '", ' || NEW.sequence || ', "' || NEW.kind || '", "' || NEW.time || '", '
          || to_json(NEW.payload)::text || ']', 'UTF8')), 'hex') THEN
    RAISE EXCEPTION 'entries are appended, one after the other' USING ERRCODE = '23514';
  END IF;
  RETURN NEW;
END""",
    "never_change": """
BEGIN
  RAISE EXCEPTION 'entries are never changed or deleted' USING ERRCODE = '23514';
END""",
    "is_first_fingerprint": """
  SELECT new_payload::jsonb ->> 'version' = '1' AND NOT EXISTS (
    SELECT FROM {schema}.entries AS known
    WHERE known.kind = 'dataset'
      AND (known.payload::jsonb ->> 'fingerprint' = new_payload::jsonb ->> 'fingerprint'
        OR known.payload::jsonb ->> 'dataset' = new_payload::jsonb ->> 'dataset'
        OR known.payload::jsonb ->> 'dataset' IN (
          SELECT other.payload::jsonb ->> 'dataset' FROM {schema}.entries AS other
          WHERE other.kind = 'alias'
            AND other.payload::jsonb ->> 'same_rows_as' = new_payload::jsonb ->> 'dataset')))""",
}

_STATEMENTS = (
    "CREATE SCHEMA {schema}",
    "COMMENT ON SCHEMA {schema} IS '{comment}'",
    """CREATE TABLE {schema}.entries (
    sequence bigint PRIMARY KEY,
    time text NOT NULL,
    kind text NOT NULL,
    payload text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
)""",
    "CREATE INDEX all_but_charges ON {schema}.entries (kind) WHERE kind <> 'charge'",
    """CREATE FUNCTION {schema}.only_append() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog AS $body${only_append}$body$""",
    """CREATE FUNCTION {schema}.never_change() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog AS $body${never_change}$body$""",
    # Volatile: a stable function would not see the earlier rows of the same statement.
    """CREATE FUNCTION {schema}.is_first_fingerprint(new_payload text) RETURNS boolean LANGUAGE sql VOLATILE
SET search_path = pg_catalog AS $body${is_first_fingerprint}$body$""",
    """CREATE TRIGGER only_append BEFORE INSERT ON {schema}.entries
FOR EACH ROW EXECUTE FUNCTION {schema}.only_append()""",
    """CREATE TRIGGER never_change BEFORE UPDATE OR DELETE ON {schema}.entries
FOR EACH ROW EXECUTE FUNCTION {schema}.never_change()""",
    """CREATE TRIGGER never_truncate BEFORE TRUNCATE ON {schema}.entries
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.never_change()""",
    "ALTER TABLE {schema}.entries ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY everybody_reads ON {schema}.entries FOR SELECT USING (true)",
    "CREATE POLICY owner_appends ON {schema}.entries FOR INSERT TO {schema}_owner WITH CHECK (true)",
    """CREATE POLICY analyst_charges ON {schema}.entries FOR INSERT TO {schema}_analyst
WITH CHECK (kind = 'charge' OR (kind = 'dataset' AND {schema}.is_first_fingerprint(payload)))""",
    "GRANT USAGE ON SCHEMA {schema} TO {schema}_owner, {schema}_analyst, {schema}_auditor",
    "GRANT SELECT ON {schema}.entries TO {schema}_owner, {schema}_analyst, {schema}_auditor",
    "GRANT INSERT ON {schema}.entries TO {schema}_owner, {schema}_analyst",
)


class SchemaPart(NamedTuple):
    """Something that guards a ledger: its kind, its name, and what it has to be."""

    kind: str
    name: str
    detail: str


def roles(schema: str) -> tuple[str, str, str]:
    """The three roles of a ledger: owner, analyst, auditor."""
    return f"{schema}_owner", f"{schema}_analyst", f"{schema}_auditor"


def statements(schema: str) -> list[str]:
    """What makes an empty ledger, once its roles exist."""
    bodies = {name: body.format(schema=schema) for name, body in _FUNCTIONS.items()}
    return [text.format(schema=schema, comment=COMMENT, **bodies) for text in _STATEMENTS]


def expected_parts(schema: str) -> set[SchemaPart]:
    """Everything that guards a ledger, as `PARTS` finds it in a database where nobody changed it."""
    triggers = {
        "only_append": "only_append",
        "never_change": "never_change",
        "never_truncate": "never_change",
    }
    policies = {"everybody_reads": "r", "owner_appends": "a", "analyst_charges": "a"}
    return {
        SchemaPart("schema", schema, COMMENT),
        SchemaPart("table", "entries", "row security"),
        *(SchemaPart("trigger", name, f"O {function}") for name, function in triggers.items()),
        *(
            SchemaPart("function", name, f"v {body.format(schema=schema)}")
            for name, body in _FUNCTIONS.items()
        ),
        *(SchemaPart("policy", name, command) for name, command in policies.items()),
    }


PARTS = """
WITH ours AS (SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname = %s),
tables AS (SELECT c.* FROM pg_catalog.pg_class c JOIN ours ON ours.oid = c.relnamespace)
SELECT 'setting', 'fsync', pg_catalog.current_setting('fsync')
UNION ALL
SELECT 'schema', nspname::text, coalesce(pg_catalog.obj_description(oid, 'pg_namespace'), '') FROM ours
UNION ALL
SELECT 'table', relname::text, CASE WHEN relrowsecurity THEN 'row security' ELSE 'open' END
  FROM tables WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
UNION ALL
SELECT 'trigger', t.tgname::text, t.tgenabled::text || ' ' || p.proname
  FROM pg_catalog.pg_trigger t
  JOIN tables ON tables.oid = t.tgrelid
  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
  WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule', r.rulename::text, '' FROM pg_catalog.pg_rewrite r JOIN tables ON tables.oid = r.ev_class
UNION ALL
SELECT 'function', f.proname::text, f.provolatile::text || ' ' || f.prosrc
  FROM pg_catalog.pg_proc f JOIN ours ON ours.oid = f.pronamespace
UNION ALL
SELECT 'policy', p.polname::text, p.polcmd::text
  FROM pg_catalog.pg_policy p JOIN tables ON tables.oid = p.polrelid
"""
