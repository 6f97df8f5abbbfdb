"""Benches as data: what is wanted, what is there, and the actions between the two.

`resource`  what a bench is made of (namespaces, links, daemons, hugepages ...): plain data
`plan`      plan(current, desired): pure, a list of Create and Remove actions
`host`      carries one action out on this machine
`journal`   every action is written down before it is done
`builder`   apply a plan, undo it, and clean up what a killed run left
"""
