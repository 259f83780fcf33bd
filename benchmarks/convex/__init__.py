"""Private linear models measured: a9a by every method, a search, a peer, and the time on covtype."""
