"""The end of what a program wrote."""

LONGEST = 2000


def end_of(*parts: str) -> str:
    """Return the end of texts, joined; of whole lines if these are enough, so that no secret is cut."""
    text = "\n".join(part.strip("\n") for part in parts if part.strip())
    if len(text) <= LONGEST:
        return text
    end = text[-LONGEST:]
    for cut in (end.find("\n"), end.find(" ")):
        if 0 <= cut < LONGEST // 2:
            return f"[...] {end[cut + 1 :]}"
    return f"[...] {end}"
