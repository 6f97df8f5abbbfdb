"""The values in a run's files, as plain JSON, whatever their schema."""

import json

from pinchpoint.model.errors import InputError


def json_values(name: str, data: bytes) -> list[object] | None:
    """The one value of a .json file, or those of a .jsonl file by line; None of a file that is plain text.

    Lines end at LF only: U+2028, U+2029 and U+0085 may stand in JSON strings as they are (RFC 8259 section 7). What
    follows the last LF is what a crash left of a line. An attachment that is not JSON is text. Raises InputError.
    """
    if not name.endswith((".json", ".jsonl")):
        return None
    lines = data.split(b"\n")[:-1] if name.endswith(".jsonl") else [data]
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(json.loads(line))
        except ValueError as error:
            if name.startswith("attachments/"):
                return None
            where = f"{name}, line {number}" if name.endswith(".jsonl") else name
            raise InputError(f"{where}: not JSON: {error}", "pack without --anonymous keeps it as it is") from error
    return values
