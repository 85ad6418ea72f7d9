"""The chat on a terminal: rich and prompt_toolkit are imported when it begins, and by nothing else."""
