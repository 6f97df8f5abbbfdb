"""What a scenario can measure: one folder for each measure, and what they share.

`standing`   the live bench: how it is built, where its results are kept, who is told of progress, how a signal ends it
`trial`      one trial: observe, send, observe, account, judge, keep
`frames`     measures that send frames: the engine, and a session from the warm-up to the result
`served`     measures of connections through a balancer; `traffic`: frames sent while the bench is changed
`summary`    a result out of what was found
"""
