"""Boards that several people and machines share: who has one, who waits, whether it is well."""

from harness.sharing.hold import again, hold, key_of, queue_of, session

__all__ = ["again", "hold", "key_of", "queue_of", "session"]
