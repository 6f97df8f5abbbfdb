"""Campaigns: one matrix of points, measured on many machines, into one folder.

`keys`, `read`  the campaign file and the units that it makes
`schedule`      pure: which unit a free machine measures next, and a forecast by that
`machines`      pure: compares machines with each other, and each with its own past
`results`       what the units have yielded
`executor`      one attempt at a unit: `pinchpoint run --resume` in a process of its own; what starts attempts: here and
                by ssh (`Processes`), or on a Ray cluster (`cluster`)
`conduct`       the loop round all of them
"""
