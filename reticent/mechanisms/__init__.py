"""How one number is made private: events (what was released), sensitivity, and the noise itself."""
