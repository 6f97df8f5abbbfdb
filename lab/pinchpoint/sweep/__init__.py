"""From a list of scenarios to their results.

`setup`     what a scenario needs on this machine: bench, engine request, collectors
`measure`   one trial: observe, send, observe, account, judge, keep
`mode`      near and far cores of a virtual machine: never mixed in one search
`scenario`  one scenario: build, warm up, search, latency, verdict, take down
`listener`  what is happening, for whoever wants to show it
"""
