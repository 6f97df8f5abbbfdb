"""The language of scenario files: keys and tables of them, kinds of values, and a reader that notes every problem."""
