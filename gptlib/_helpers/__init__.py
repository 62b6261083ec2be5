"""What rooms share: checks of numbers, ids, logits and files; folders, tables, messages, signals.

May import nothing of gptlib.
"""
