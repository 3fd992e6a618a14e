"""A night: a matrix of boards, models and actions, carried out board by board, and kept so that it can go on."""
