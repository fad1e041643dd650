"""Input for the demo: a folder of pictures that look like photographs to a decoder."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

LANDSCAPE, PORTRAIT = (1600, 1200), (1200, 1600)
_NOISE_EDGE = 400
Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GeneratedFolder:
    """What was written: `count` pictures, `broken` of them truncated."""

    folder: Path
    count: int
    broken: int


def generate_photographs(folder: Path, count: int, rng: random.Random) -> GeneratedFolder:
    """Write `count` pictures of about 2 megapixels: some portrait, some PNG, the last one cut off.

    Args:
        folder: is made if missing; pictures of the same names are replaced.
        count: how many; the truncated one is among them if there are 2 or more.
        rng: the same seed gives the same pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, count + 1):
        photograph = _photograph(PORTRAIT if number % 5 == 0 else LANDSCAPE, rng)
        is_png = number % 7 == 0 and number != count
        path = folder / f"photograph-{number:04}.{'png' if is_png else 'jpg'}"
        if is_png:
            photograph.save(path, compress_level=1)
        else:
            photograph.save(path, quality=88)
    broken = 1 if count >= 2 else 0
    if broken:
        _truncate(folder / f"photograph-{count:04}.jpg")
    return GeneratedFolder(folder, count, broken)


def _photograph(size: tuple[int, int], rng: random.Random) -> Image.Image:
    width, height = size
    sky = ImageOps.colorize(
        Image.linear_gradient("L").resize(size), black=_colour(rng, 40, 150), white=_colour(rng, 150, 250)
    )
    draw = ImageDraw.Draw(sky)
    x, y, radius = rng.randrange(width), rng.randrange(height // 2), rng.randrange(40, 160)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(rng, 200, 255))
    for layer in range(3):
        draw.polygon(_hills(width, height, layer, rng), fill=_colour(rng, 20, 160 - 40 * layer))
    return Image.blend(sky, _noise(size, rng), 0.12)


def _hills(width: int, height: int, layer: int, rng: random.Random) -> list[tuple[int, int]]:
    top = height * (5 + layer) // 9
    step = width // 12
    crest = [(x, top + rng.randrange(-height // 12, height // 12)) for x in range(0, width + step, step)]
    return [(0, height), *crest, (width, height)]


def _noise(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Grain like that of a sensor; without it the files are ten times smaller than photographs."""
    grain = Image.frombytes("RGB", (_NOISE_EDGE, _NOISE_EDGE), rng.randbytes(3 * _NOISE_EDGE**2))
    tiled = Image.new("RGB", size)
    for x in range(0, size[0], _NOISE_EDGE):
        for y in range(0, size[1], _NOISE_EDGE):
            tiled.paste(grain, (x, y))
    return tiled


def _colour(rng: random.Random, low: int, high: int) -> Colour:
    return rng.randrange(low, high), rng.randrange(low, high), rng.randrange(low, high)


def _truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
