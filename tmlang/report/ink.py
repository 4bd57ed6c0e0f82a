"""The small drawings of the page itself, as inline SVG and PNG: the same bytes for the same numbers, and no library.

Every run ends with a page, so what it shows by default must cost milliseconds; figures that are asked for by name are
drawn by ``report.figures``. Lines and texts take their colours from the page's style sheet, by class.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tmlang.report.failures import Pictures

_WIDTH, _HEIGHT = 640, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 24, 18, 46
_LOOK = {
    "axis": 'fill="none" stroke="#565d66"',
    "grid": 'fill="none" stroke="#dcdfe3"',
    "upper": 'fill="none" stroke="#1f5f99" stroke-width="1.8"',
    "below": 'fill="none" stroke="#2a9d6f" stroke-width="1.8" stroke-dasharray="6 4"',
    "range": 'fill="#1f5f99" fill-opacity="0.16"',
}
_DOTS = {"upper": "#1f5f99", "below": "#2a9d6f"}
_ANCHORS = {"tick": "middle", "value": "end"}
"""How each class looks where no style sheet reaches it (in a PDF, or copied out of the page)."""

_RED, _WHITE, _BLUE = np.array([0.70, 0.09, 0.17]), np.ones(3), np.array([0.13, 0.40, 0.67])
"""Signed differences: blue below, white at none, red above (ColorBrewer RdBu)."""


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def survival_plot(points: Sequence[tuple[str, float, float]], proved: float | None, rests_on: str = "") -> Markup:
    """Survival after each attack in order: (label, low, high) in shares; a dashed line for what is proved, with the
    words of what that rests on."""
    words = f" ({rests_on})" if rests_on else ""
    at = [_x((i + 0.1) / (len(points) - 0.4)) for i in range(len(points))]
    ends = [*at[1:], _x(1)]
    parts = [_axes("survival, %")]
    for x, end, (_, low, high) in zip(at, ends, points, strict=True):
        if high > low:
            parts.append(_rect("range", x, _y(high), end - x, _y(low) - _y(high)))
    steps = [p for x, end, point in zip(at, ends, points, strict=True) for p in ((x, point[2]), (end, point[2]))]
    parts.append(_line("upper", [(x, _y(share)) for x, share in steps]))
    if proved is not None:
        parts.append(_line("below", [(_LEFT, _y(proved)), (_x(1), _y(proved))]))
        parts.append(_label("below", _LEFT + 4, _y(proved) + 14, f"proved: {100 * proved:.1f}{words}"))
    for i, (x, (label, _, high)) in enumerate(zip(at, points, strict=True)):
        parts.append(_dot("upper", x, _y(high)))
        parts.append(_label("", x + 5, _y(high) - 6, f"{100 * high:.1f}"))
        parts.append(
            _label("tick", x, _HEIGHT - _BOTTOM + (18 if i % 2 == 0 or len(points) < 7 else 33), label or "before")
        )
    said = ", ".join(f"{label or 'before'} {100 * high:.1f} %" for label, _, high in points)
    return _svg(f"Survival after each attack in order: {said}", parts)


def sweep_plot(
    parameter: str, points: Sequence[tuple[float, float | None, float | None]], rests_on: str = ""
) -> Markup:
    """Closed survival and closed certified share over a parameter: (value, survival, certified), in shares; with the
    words of what the latter rests on.

    Where both stand, the band between them is where R lies.
    """
    low, high = points[0][0], points[-1][0]
    width = (high - low) or 1.0
    at = [_x(0.04 + 0.9 * (p[0] - low) / width) for p in points]
    parts = [_axes("% of the count")]
    band = [(x, s, c) for x, (_, s, c) in zip(at, points, strict=True) if s is not None and c is not None]
    if len(band) > 1:
        edge = [(x, _y(s)) for x, s, _ in band] + [(x, _y(c)) for x, _, c in reversed(band)]
        parts.append(f'<polygon class="range" {_LOOK["range"]} points="{_points(edge)}"/>')
    certified = f"certified ({rests_on})" if rests_on else "certified"
    for name, i, style in (("survival", 1, "upper"), (certified, 2, "below")):
        found = [(x, _y(share)) for x, p in zip(at, points, strict=True) if (share := p[i]) is not None]
        if found:
            parts += [_line(style, found), *(_dot(style, *p) for p in found)]
            parts.append(_label(style, found[0][0] + 6, found[0][1] - 7 if i == 1 else found[0][1] + 15, name))
    parts += [_label("tick", x, _HEIGHT - _BOTTOM + 18, f"{p[0]:.4g}") for x, p in zip(at, points, strict=True)]
    parts.append(_label("tick", _x(0.5), _HEIGHT - 8, parameter))
    return _svg(f"Survival and certified share over {parameter}; the numbers stand in the table below", parts)


def _svg(said: str, parts: Sequence[str]) -> Markup:
    head = f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">'
    return Markup(head + "".join(parts) + "</svg>")


def _axes(label: str) -> str:
    parts = [_line("axis", [(_LEFT, _TOP), (_LEFT, _HEIGHT - _BOTTOM), (_x(1), _HEIGHT - _BOTTOM)])]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_line("grid", [(_LEFT, _y(share)), (_x(1), _y(share))]) if share else "")
        parts.append(_label("value", _LEFT - 6, _y(share) + 4, f"{100 * share:.0f}"))
    turned = f' transform="translate(14 {_y(0.5):.1f}) rotate(-90)"'
    parts.append(_label("tick", 0, 0, label, turned))
    return "".join(parts)


def _line(kind: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" {_LOOK[kind]} points="{_points(points)}"/>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _dot(kind: str, x: float, y: float) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{_DOTS[kind]}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" {_LOOK[kind]} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _label(kind: str, x: float, y: float, text: str, turned: str = "") -> str:
    look = f'font-size="12" fill="#565d66" text-anchor="{_ANCHORS.get(kind, "start")}"'
    return f'<text class="{kind}" {look} x="{x:.1f}" y="{y:.1f}"{turned}>{escape(text)}</text>'


# Pictures ------------------------------------------------------------------------------------------------------------


def picture_uris(pictures: Pictures) -> tuple[str, str, str]:
    """Original, changed input and signed difference as PNG, one pixel per pixel."""
    return _uri(pictures.original), _uri(pictures.changed), _uri(signed_colours(pictures.difference))


def pngs(pictures: Pictures, *, side: int = 200) -> tuple[bytes, bytes]:
    """Original and changed input as PNG, each pixel a square so large that the longer side has ``side`` or more."""
    times = -(-side // max(pictures.original.shape[:2]))
    large = [a.repeat(times, 0).repeat(times, 1) for a in (pictures.original, pictures.changed)]
    return _png(large[0]), _png(large[1])


def signed_colours(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """A flat difference in two colours; one of three channels around grey, channel by channel."""
    if difference.ndim == 3:
        return difference / 2 + 0.5
    weight = difference[..., None]
    end = np.where(weight > 0, _RED, _BLUE)
    shaded: NDArray[np.float64] = _WHITE * (1 - np.abs(weight)) + end * np.abs(weight)
    return shaded


def _uri(array: NDArray[np.float64]) -> str:
    return "data:image/png;base64," + base64.b64encode(_png(array)).decode()


def _png(array: NDArray[np.float64]) -> bytes:
    """An 8-bit PNG (RFC 2083): grey for (height, width), RGB for (height, width, 3), values in [0, 1]."""
    pixels = np.rint(np.clip(array, 0.0, 1.0) * 255).astype(np.uint8)
    height, width = pixels.shape[:2]
    # Every row begins with the number of its filter, 0 for none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    return data + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
