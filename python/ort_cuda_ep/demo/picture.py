"""A picture with known text."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LINES = ("Execution provider 2026", "Total 1234567890", "Kernel stream memory", "Invoice 48151 paid")

_SIZE = (480, 288)
_FONT_PX = 36


def draw_lines(lines: tuple[str, ...] = LINES) -> np.ndarray:
    """`lines` in black on white, one below the other, as an H x W x 3 array of bytes in OpenCV's channel order.

    The font is the one inside Pillow, so the picture is the same on every machine.
    """
    picture = Image.new("RGB", _SIZE, "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=_FONT_PX)
    pitch = _SIZE[1] // len(lines)
    for row, line in enumerate(lines):
        draw.text((24, row * pitch + (pitch - _FONT_PX) // 2), line, fill="black", font=font)
    return np.ascontiguousarray(np.asarray(picture)[:, :, ::-1])
