"""Two networks that torchvision does not have: a detector of the YOLO family, and the U-Net of a diffusion model."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class _Conv(nn.Sequential):
    """Convolution, normalisation, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class _Stages(nn.Module):
    """A cross-stage block: half of the channels pass `count` residual blocks, all of whose results are joined."""

    def __init__(self, inputs: int, outputs: int, count: int, residual: bool) -> None:
        super().__init__()
        half, self.residual = outputs // 2, residual
        self.first, self.last = _Conv(inputs, outputs), _Conv((2 + count) * half, outputs)
        self.blocks = nn.ModuleList(nn.Sequential(_Conv(half, half, 3), _Conv(half, half, 3)) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, inputs, h, w] -> [batch, outputs, h, w]."""
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]) if self.residual else block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Pyramid(nn.Module):
    """Maxima over growing windows, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = _Conv(channels, channels // 2), _Conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same dimensions."""
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Backbone, path aggregation and a head without anchors of three scales; the size of a small YOLOv8."""

    def __init__(self, width: int = 32, classes: int = 80, bins: int = 16) -> None:
        """`bins`: of the distribution over each side's distance."""
        super().__init__()
        w, self.bins, self.classes = width, bins, classes
        self.stem = nn.Sequential(_Conv(3, w, 3, 2), _Conv(w, 2 * w, 3, 2), _Stages(2 * w, 2 * w, 1, True))
        self.down3 = nn.Sequential(_Conv(2 * w, 4 * w, 3, 2), _Stages(4 * w, 4 * w, 2, True))
        self.down4 = nn.Sequential(_Conv(4 * w, 8 * w, 3, 2), _Stages(8 * w, 8 * w, 2, True))
        self.down5 = nn.Sequential(_Conv(8 * w, 16 * w, 3, 2), _Stages(16 * w, 16 * w, 1, True), _Pyramid(16 * w))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top4, self.top3 = _Stages(24 * w, 8 * w, 1, False), _Stages(12 * w, 4 * w, 1, False)
        self.low4, self.low5 = _Conv(4 * w, 4 * w, 3, 2), _Conv(8 * w, 8 * w, 3, 2)
        self.out4, self.out5 = _Stages(12 * w, 8 * w, 1, False), _Stages(24 * w, 16 * w, 1, False)
        sizes, wide = (4 * w, 8 * w, 16 * w), max(4 * w, classes)
        self.boxes, self.scores = (
            nn.ModuleList(
                nn.Sequential(_Conv(size, inner, 3), _Conv(inner, inner, 3), nn.Conv2d(inner, outputs, 1))
                for size in sizes
            )
            for inner, outputs in ((4 * bins, 4 * bins), (wide, classes))
        )
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """[batch, 3, h, w] -> [batch, 4 + classes, boxes]: distances to the sides in cells, probabilities."""
        third = self.down3(self.stem(image))
        fourth = self.down4(third)
        fifth = self.down5(fourth)
        fourth = self.top4(torch.cat([self.up(fifth), fourth], 1))
        third = self.top3(torch.cat([self.up(fourth), third], 1))
        fourth = self.out4(torch.cat([self.low4(third), fourth], 1))
        fifth = self.out5(torch.cat([self.low5(fourth), fifth], 1))
        levels = (third, fourth, fifth)
        boxes = torch.cat([head(level).flatten(2) for head, level in zip(self.boxes, levels, strict=True)], 2)
        scores = torch.cat([head(level).flatten(2) for head, level in zip(self.scores, levels, strict=True)], 2)
        spread = boxes.reshape(boxes.shape[0], 4, self.bins, -1).softmax(2)
        sides = (spread * self.steps.to(boxes.dtype).reshape(1, 1, -1, 1)).sum(2)
        return torch.cat([sides, scores.sigmoid()], 1)


class _Residual(nn.Module):
    """Two normalised convolutions, the time step added between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs, 1e-5), nn.GroupNorm(32, outputs, 1e-5)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, 1, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """[batch, inputs, h, w], [batch, time] -> [batch, outputs, h, w]."""
        inner = self.conv1(functional.silu(self.norm1(x)))
        inner = inner + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(inner)))


class _Attention(nn.Module):
    """Heads over rows of `width`, keys and values from rows of `source`."""

    def __init__(self, width: int, source: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.k, self.v = nn.Linear(source, width, bias=False), nn.Linear(source, width, bias=False)

    def forward(self, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """[batch, rows, width], [batch, keys, source] -> [batch, rows, width]."""
        q, k, v = (
            part.reshape(part.shape[0], part.shape[1], self.heads, -1).transpose(1, 2)
            for part in (self.q(x), self.k(source), self.v(source))
        )
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _Transformer(nn.Module):
    """Self-attention, attention to the context and a gated network over an image's pixels."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width, 1e-6)
        self.into, self.out = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.self_attention = _Attention(width, width, heads)
        self.cross_attention = _Attention(width, context, heads)
        self.gate, self.last = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """[batch, width, h, w], [batch, keys, context] -> [batch, width, h, w]."""
        rows = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        normed = self.norms[0](rows)
        rows = rows + self.self_attention(normed, normed)
        rows = rows + self.cross_attention(self.norms[1](rows), context)
        wide, gate = self.gate(self.norms[2](rows)).chunk(2, -1)
        rows = rows + self.last(wide * functional.gelu(gate))
        return x + self.out(rows.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Three scales, attention in each, a skip from every block down to one up: Stable Diffusion's, a scale smaller."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280), context: int = 768, heads: int = 8) -> None:
        """`widths`: channels of the scales."""
        super().__init__()
        time = 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, widths[0], 3, 1, 1)
        skips, last = [widths[0]], widths[0]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, width in enumerate(widths):
            for _ in range(2):
                self.down.append(nn.ModuleList([_Residual(last, width, time), _Transformer(width, context, heads)]))
                last = width
                skips.append(width)
            if level + 1 < len(widths):
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1)]))
                skips.append(width)
        self.middle = nn.ModuleList(
            [_Residual(last, last, time), _Transformer(last, context, heads), _Residual(last, last, time)]
        )
        for level, width in reversed(list(enumerate(widths))):
            for block in range(3):
                inputs = last + skips.pop()
                layers: list[nn.Module] = [_Residual(inputs, width, time), _Transformer(width, context, heads)]
                if level > 0 and block == 2:
                    layers.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, 1, 1)))
                self.up.append(nn.ModuleList(layers))
                last = width
        self.norm, self.last = nn.GroupNorm(32, last, 1e-5), nn.Conv2d(last, 4, 3, 1, 1)

    def forward(self, latent: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """[batch, 4, h, w], [batch, widths[0]], [batch, keys, context] -> [batch, 4, h, w]."""
        time = self.time(time)
        x = self.first(latent)
        skips = [x]
        for layers in self.down:
            x = layers[1](layers[0](x, time), context) if len(layers) == 2 else layers[0](x)
            skips.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time), context), time)
        for layers in self.up:
            x = layers[1](layers[0](torch.cat([x, skips.pop()], 1), time), context)
            x = layers[2](x) if len(layers) == 3 else x
        return self.last(functional.silu(self.norm(x)))
