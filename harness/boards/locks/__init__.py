"""Boards that several people and machines share: who has one, who waits, whether it is well."""

from harness.boards.locks.lease import again, hold, in_use, key_of, quarantined, queue_of, session

__all__ = ["again", "hold", "in_use", "key_of", "quarantined", "queue_of", "session"]
