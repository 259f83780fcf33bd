"""Secure aggregation: a server learns the noisy sum of what clients send, and no single update.

shares     whole numbers and their shares of noise: what a sum costs
masks      keys that two clients agree on, and the numbers that they expand to
shamir     secrets in shares, of which so many are needed
state      what a server of several rounds keeps
turns      how often a client took part, in a file of its own
protocol   clients, the server, and what they send each other
"""
