"""`python -m pinchpoint`: the command, where the script of its name is not on the path."""

from pinchpoint.cli.main import run_and_exit

run_and_exit()
