"""Deterministic mutations of inputs: the same seed gives the same bytes."""
import random
import re

NUMBERS = ["0", "-1", "1", "2147483648", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e308", "-1e308",
           "1e-308", "nan", "inf", "-inf", "0.5", "3.0000001", "0x10", "1_000", "", "[]", "[[1]]", "true", '"text"', "{}", "1e4000"]
WORDS = ["", " ", "all", "none", "tessera", "A" * 5000, "\u00e9\u4e2d", "\x00", "../../etc/passwd", "%s%n", "\\", '"', "'", "#", "[plan]", "=", ","]


def mutate_bytes(data, rng):
    """Flips, cuts, repeats, overwrites: for binary files."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del data[at:at + rng.choice([1, 7, 64, 1024])]
        elif kind == 3:
            data[at:at] = data[at:at + rng.choice([1, 8, 512])]
        elif kind == 4:
            size = rng.choice([2, 4, 8])
            data[at:at + size] = rng.choice([b"\xff", b"\0"]) * size
        else:
            del data[at:]
    return bytes(data)


def mutate_text(data, rng):
    """Replaces numbers and words, drops, doubles and swaps lines: for text that should still nearly parse."""
    text = data.decode()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        kind = rng.randrange(6)
        if kind <= 1:
            found = list(re.finditer(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text))
            if found:
                it = rng.choice(found)
                text = text[:it.start()] + rng.choice(NUMBERS) + text[it.end():]
        elif kind == 2:
            found = list(re.finditer(r"[A-Za-z_][\w-]*", text))
            if found:
                it = rng.choice(found)
                text = text[:it.start()] + rng.choice(WORDS) + text[it.end():]
        elif kind == 3:
            lines = text.split("\n")
            at = rng.randrange(len(lines))
            lines[at:at + 1] = rng.choice([[], [lines[at], lines[at]], [lines[at][::-1]], [rng.choice(lines)]])
            text = "\n".join(lines)
        elif kind == 4:
            text = mutate_bytes(text.encode(errors="ignore"), rng).decode(errors="ignore")
        else:
            found = list(re.finditer(r"[\[\]{}\"=,:]", text))
            if found:
                it = rng.choice(found)
                text = text[:it.start()] + rng.choice(["", "[", "]", "{", "}", '"', "=", ",", ":", "\n"]) + text[it.end():]
    return text.encode(errors="ignore")
