"""Federated learning on images and texts: what privacy costs, and what malicious clients achieve."""
