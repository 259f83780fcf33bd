"""Tables as strangers bring them: ours beside a private peer and models without privacy, on the same rows."""
