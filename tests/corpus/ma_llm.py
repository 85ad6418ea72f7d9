"""A plug-in with one tool: ``turnchart check 03_adk_prime.yaml --plugin ma_llm``."""

from turnchart.machine import tool


@tool
def check_prime(numbers: list[int]) -> str:
    """Say which of the numbers are prime."""
    return ", ".join(str(n) for n in numbers if n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)))
