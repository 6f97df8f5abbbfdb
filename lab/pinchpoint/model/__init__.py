"""What everything is made of: frozen dataclasses, enums and units; no I/O.

`scenario`  what the user asked for (effective values, defaults filled in)
`trial`     one transmission with its complete account
`result`    what a run found, and why it may be believed
`errors`    the exceptions that end as one line for the user
`units`     how rates, times and shares are written for people
"""
