"""A session with a board: this machine, by SSH, or emulated; and the lock that keeps two users apart."""
