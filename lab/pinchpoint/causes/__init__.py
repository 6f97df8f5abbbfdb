"""What pinched a number. Pure.

`verdict`  what limited a rate, with its evidence and what was ruled out
`ceiling`  whether the generator is the limit
`modes`    what explains the band of a rate
"""
