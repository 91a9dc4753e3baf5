"""
Receive the same deliveries in the three ways that almost every hand-written receiver does.

Each is small, verifies the signature, keeps the event ids it has seen in a table, and looks right. None contains a
fault: what goes wrong is one line's place. They share the reading, the rules and the tables of the billing example, so
that only the mistake differs; and as in most applications their ledger has no unique key of its own: the event id is
trusted to be enough.
"""
