"""
Measure webhook-inbox beside what else a user could pick, on one PostgreSQL, in one run.

``python -m benchmarks --help`` says what there is; ``docs/explanation/performance.md`` says what came out.

    harness/   a PostgreSQL of its own, servers, load, interleaved rounds, figures, results
    peers/     what the peers need, pinned; installed below build/, never into the project's environment
    receive/   HTTP to commit: one app a receiver
    process/   recorded to effect: one program a queue
    overhead/  the same with handlers that do nothing
    scaling/   our own worker: more processes, and events that fail
    overhead/  the same with handlers that do nothing
    scaling/   more workers of ours, and events that fail
    limits/    what pgbench makes of the same tables
    latency/   from the 200 to the effect, on an idle system
    idle/      what a worker costs that has nothing to do
    growth/    the same with rows, connections and bodies that grow
    storage/   layouts of the tables compared by what they write and read
    report/    the results as a page with plots
"""
