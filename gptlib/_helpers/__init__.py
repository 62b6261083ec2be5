"""What every room may need: numbers, names and files checked where they come in.

May import nothing of gptlib.
"""
