"""The studio: a local web application over the same engine, runs and ledgers as the commands.

| file | what it holds |
|---|---|
| `serve.py` | the address, the secret in it, the server |
| `access.py` | who is let in: the secret, the host, the origin; what a page may load |
| `application.py` | which page answers which address |
| `workspace.py` | the folder that the studio looks into, and nothing outside it |
| `planning.py` | a plan from the words of a form: cost, noise, curves, odds |
| `columns.py` | what is public about a table, and what finding the rest would cost |
| `jobs.py` | commands that run for a page, and what they say |
| `markup.py` | pages as escaped text |
| `pages/` | one file per page |

Nothing is computed here that a command does not compute: every button shows the command that it runs.
"""
