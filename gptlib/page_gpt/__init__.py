"""The engine in the page: a GPT in plain JavaScript, and how scripts and weights are packed for it.

May import the NumPy engine and what is below it.
"""
