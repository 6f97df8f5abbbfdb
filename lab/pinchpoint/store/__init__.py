"""Run folders: what a run measured, kept so that a crash loses at most the line being written.

`folder`     RunFolder: create, open, append, rewrite atomically
`codec`      dataclasses <-> JSON, strict in both directions
`bundle`     a run as one file; `anonymous` replaces addresses and names of hosts in it
`campaign`   a campaign's folder
`recording`  recordings of a watched device
"""
