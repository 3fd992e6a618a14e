"""Boards that several people and machines share: their locks, queues and health.

lease        holds a board; the other packages call it
ticket       a place in the queue; `blockers` decides who has the board before a ticket
queue        this process's ticket; the duration of a lease (`Terms`) and the longest time to wait (HARNESS_LOCK_WAIT_S)
lock         waits for the first place, renews the lease, raises BoardBusy after the longest time to wait;
             also locks without a process
lease_guard  ends the sessions with a board when its lock is lost
labgrid      a board that is a place of a labgrid coordinator; heartbeat releases the place
folder       the shared folder with the tickets
health       checks a board, quarantine keeps the result, power switches a board off and on
"""

from harness.boards.locks.lease import again, hold, in_use, key_of, key_or_name, quarantined, queue_of, session

LOCK_WAIT_S = 3600.0
"""Longest time that a command waits for a board."""

__all__ = ["LOCK_WAIT_S", "again", "hold", "in_use", "key_of", "key_or_name", "quarantined", "queue_of", "session"]
