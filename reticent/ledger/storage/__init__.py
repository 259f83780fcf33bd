"""Where the entries of a ledger are kept. The rules of a ledger are the same in every place.

interface       a store and its transactions, as the rules see them
sqlite          a file on a local disk
postgres        a schema of a PostgreSQL database, for a team
open_store      the store for an address: sqlite or postgres
postgres_schema its tables, triggers, roles and rights
"""
