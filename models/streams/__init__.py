"""Networks over sequences of frames, for streams."""
