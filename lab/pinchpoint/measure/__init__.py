"""What a scenario can measure: one folder for each measure, and what they share.

`trial`      one trial: observe, send, observe, account, judge, keep
`standing`   a bench that stands, and where findings go; `listener`: what is happening, for whoever shows it
`frames`     the engine on a bench that stands; `traffic`: frames sent while the bench is changed
`warm_up`    traffic that is not accounted for; `summary`: a result out of what was found
"""
