"""A session with a board: this machine, by SSH, or emulated."""
