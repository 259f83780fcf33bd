"""What people look at: figures and terminal pictures made from results, never from data."""
