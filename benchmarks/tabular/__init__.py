"""Tables from a raw file to a private model: accuracy, its price, a peer beside it, and growth."""
