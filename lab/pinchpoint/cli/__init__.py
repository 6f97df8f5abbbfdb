"""The command line: arguments in, progress and tables out, exit codes as documented.

`main`        the group of commands and how errors end
`options`     options that several commands have, and kinds of their values
`program`     what a command shall run
`run`         pinchpoint run, and how every command that measures begins and ends
`terminal`    what is shown meanwhile, and then
"""
