"""Ways in which a data directory comes to harm. Each says what it did; all are seeded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Damage = Callable[[Path, Random], str]


def segments(data: Path) -> list[Path]:
    return sorted((data / "journal").glob("*.journal"))


def _some(data: Path, random: Random) -> Path:
    # Often the newest: it is the one whose loss is hardest to notice.
    found = segments(data)
    return found[-1] if random.random() < 0.4 else random.choice(found)


def flip_bits(data: Path, random: Random) -> str:
    file = _some(data, random)
    content = bytearray(file.read_bytes())
    if not content:
        return "nothing to flip"
    count = random.choice((1, 1, 1, 2, 5, 40))
    for _ in range(count):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    file.write_bytes(content)
    return f"{count} bits of {file.name} flipped"


def overwrite(data: Path, random: Random) -> str:
    """A stretch of zeros or of noise, as of a bad sector."""
    file = _some(data, random)
    content = bytearray(file.read_bytes())
    size = min(len(content), random.choice((16, 64, 512, 512, 1 << 20)))
    start = random.randrange(len(content) - size + 1)
    noise = bytes(size) if random.random() < 0.5 else random.randbytes(size)
    content[start : start + size] = noise
    file.write_bytes(content)
    return f"{size} bytes of {file.name} overwritten at {start}"


def truncate(data: Path, random: Random) -> str:
    file = _some(data, random)
    content = file.read_bytes()
    size = random.choice((0, random.randint(0, len(content)), random.randint(0, len(content))))
    file.write_bytes(content[:size])
    return f"{file.name} cut to {size} bytes"


def cut_out(data: Path, random: Random) -> str:
    """Bytes are missing in the middle, and the rest has moved up."""
    file = _some(data, random)
    content = bytearray(file.read_bytes())
    if not content:
        return "nothing to cut out"
    start = random.randrange(len(content))
    size = random.choice((1, 50, 300))
    del content[start : start + size]
    file.write_bytes(content)
    return f"{size} bytes cut out of {file.name} at {start}"


def remove(data: Path, random: Random) -> str:
    file = _some(data, random)
    file.unlink()
    return f"{file.name} removed"


def zero(data: Path, random: Random) -> str:
    file = _some(data, random)
    file.write_bytes(bytes(file.stat().st_size))
    return f"{file.name} full of zeros"


def swap(data: Path, random: Random) -> str:
    found = segments(data)
    if len(found) < 2:
        return "nothing to swap"
    one, other = random.sample(found, 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{one.name} and {other.name} swapped"


def copy_over(data: Path, random: Random) -> str:
    found = segments(data)
    if len(found) < 2:
        return "nothing to copy over"
    one, other = random.sample(found, 2)
    shutil.copy(one, other)
    return f"{one.name} copied over {other.name}"


def lose_synced(data: Path, random: Random) -> str:
    file = data / "journal" / "synced"
    if random.random() < 0.5:
        file.unlink(missing_ok=True)
        return "synced removed"
    if file.exists():
        content = bytearray(file.read_bytes())
        for at in random.choice(((0,), (4096,), (0, 4096))):
            content[at + random.randrange(68)] ^= 1
        file.write_bytes(content)
    return "synced damaged"


def duplicate(data: Path, random: Random) -> str:
    """A copy under a number that no segment has, above all or below all."""
    file = _some(data, random)
    numbers = {int(each.stem) for each in segments(data)}
    number = random.choice(sorted({0, max(numbers) + 1, max(numbers) + 30} - numbers))
    shutil.copy(file, file.with_name(f"{number:020d}.journal"))
    return f"{file.name} duplicated as {number}"


DAMAGES: tuple[Damage, ...] = (
    flip_bits,
    flip_bits,
    overwrite,
    truncate,
    cut_out,
    remove,
    zero,
    swap,
    copy_over,
    duplicate,
    lose_synced,
)
