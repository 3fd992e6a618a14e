"""The commands that use a board, from the request to the evidence.

`run.execute` reads from top to bottom as the data flows:

    job.check            the request and its plan
    job.build            program, bundle, reference, run folder
    locks.session        the locked board, reached
    attempt.deployed     the bundle on the board
    prove.prove          the questions of a proof, if one is requested
    chunks.run_pipelined execute, collect, compare, record
    document.conclude    the verdict
    attempt.finish       reports, then `run.json`

`measure.execute` has the same frame around the segments of a measurement.
"""
