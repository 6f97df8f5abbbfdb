"""What a scenario can measure: one folder for each measure, and what they share.

`standing`   the live bench: building it, storing its results, reporting progress, stopping on a signal
`trial`      one trial: observe, send, observe, account, judge, keep
`frames`     measures that send frames: the engine, and a session from the warm-up to the result
`served`     measures of connections through a balancer; `traffic`: frames sent while the bench is changed
`summary`    a result out of what was found
"""
