"""Boards that several people and machines share: who has one, who waits, whether it is well."""

from harness.sharing.hold import hold, key_of, queue_of, session

__all__ = ["hold", "key_of", "queue_of", "session"]
