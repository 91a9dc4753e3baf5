"""
One program a queue, each in the environment that its packages need; nothing here imports the product but ``ours``.

    python -m benchmarks.process.peers.NAME setup DSN COUNT            makes the queue's tables, enqueues COUNT events
    python -m benchmarks.process.peers.NAME work DSN [--set name=value ...]    is one worker process, until it is ended

Node's are ``NAME.mjs`` and take the same arguments.
"""
