"""placeholder until merge"""


def redact_text(text: str) -> str:
    return text
