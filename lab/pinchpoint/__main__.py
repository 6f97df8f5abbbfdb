"""`python -m pinchpoint`: the command, where the script of its name is not on the path."""

import sys

from pinchpoint.cli.main import main

sys.exit(main())
