"""How facts look: a page (`html`), a terminal (`terminal`), and the console that both speak through."""
