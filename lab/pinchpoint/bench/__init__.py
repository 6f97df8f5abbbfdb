"""Benches as data: what is wanted, what is there, and the actions between the two.

`resource`  what a bench is made of (namespaces, links, daemons, hugepages ...): plain data
`actions`   carries one action out on a host
`journal`   every action is written down before it is done
`builder`   plan(current, desired), pure; apply a plan, undo it, and clean up what a killed run left
"""
