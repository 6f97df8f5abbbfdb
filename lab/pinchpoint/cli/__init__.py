"""The command line: arguments in, progress and tables out, exit codes as documented.

`main`      the group of commands and how errors end
`run`       pinchpoint run
`inspect`   pinchpoint check, show, report, doctor, clean
`progress`  what is shown during a run
"""
