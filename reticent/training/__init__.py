"""Private training: gradients of bounded length, noise, and the loop around them."""
