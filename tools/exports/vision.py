"""Images: classifiers, a segmenter, U-Nets, detectors."""

from typing import Any

import torch
from torch import nn
from torchvision.models import convnext, efficientnet, mobilenetv3, resnet, segmentation, swin_transformer
from torchvision.models import vision_transformer as vit
from torchvision.models.detection import FasterRCNN, RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

from .model import Export, entries


def _images(module: nn.Module, size: int, batches: tuple[int, ...] = (2, 3)) -> Export:
    runs = [(torch.randn(batch, 3, size, size),) for batch in batches]
    return Export(module, ["image"], runs, ["y"], {"image": {0: "batch"}})


def _resnet(_: str) -> Export:
    return _images(resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10), 48)


def _resnext(_: str) -> Export:
    return _images(
        resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, groups=4, width_per_group=4), 48, (1, 2)
    )


def _mobilenet(_: str) -> Export:
    return _images(mobilenetv3.mobilenet_v3_small(width_mult=0.5, num_classes=10), 48)


def _efficientnet(_: str) -> Export:
    settings, channels = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.5, depth_mult=0.4)
    return _images(efficientnet.EfficientNet(settings, 0.2, num_classes=10, last_channel=channels), 48)


def _efficientnet_v2(_: str) -> Export:
    conf, fused = efficientnet.MBConvConfig, efficientnet.FusedMBConvConfig
    settings = [fused(1, 3, 1, 16, 16, 1), fused(4, 3, 2, 16, 24, 2), conf(4, 3, 2, 24, 32, 2)]
    return _images(efficientnet.EfficientNet(settings, 0.2, num_classes=10, last_channel=64), 32)


def _convnext(_: str) -> Export:
    config = convnext.CNBlockConfig
    blocks = [config(16, 32, 1), config(32, 64, 2), config(64, None, 1)]
    return _images(convnext.ConvNeXt(blocks, num_classes=10), 64)


def _vit(_: str) -> Export:
    module = vit.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=10
    )
    return _images(module, 32)


def _swin(exporter: str) -> Export:
    # A trace has some thousand nodes a stage.
    depths, heads = ([2], [2]) if exporter == "torchscript" else ([2, 2], [2, 4])
    return _images(swin_transformer.SwinTransformer([4, 4], 24, depths, heads, [4, 4], num_classes=10), 64)


def _swin_v2(_: str) -> Export:
    module = swin_transformer.SwinTransformer(
        [4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10,
        block=swin_transformer.SwinTransformerBlockV2, downsample_layer=swin_transformer.PatchMergingV2,
    )  # fmt: skip
    return _images(module, 64)


class _Picked(nn.Module):
    """A segmenter's main output alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, image: torch.Tensor) -> Any:
        """Scores for each pixel."""
        return self.inner(image)["out"]


def _segmenter(_: str) -> Export:
    module = _Picked(segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4))
    runs = [(torch.randn(batch, 3, 64, 64),) for batch in (1, 2)]
    return Export(module, ["image"], runs, ["y"], {"image": {0: "batch"}})


class _UNet(nn.Module):
    """Down, across and up, as segmentation and diffusion models have it; `norm` makes a layer for some channels."""

    def __init__(self, norm: Any, activation: Any, transposed: bool) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm(outputs), activation()]
            return nn.Sequential(*layers, nn.Conv2d(outputs, outputs, 3, padding=1), norm(outputs), activation())

        self.first, self.second, self.bottom = block(3, 16), block(16, 32), block(32, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.up1, self.up2 = (
            nn.ConvTranspose2d(32, 32, 2, 2) if transposed else nn.Upsample(scale_factor=2, mode="bilinear")
            for _ in range(2)
        )
        self.third, self.fourth = block(64, 32), block(48, 16)
        self.last = nn.Conv2d(16, 2, 1)
        self.down = nn.MaxPool2d(2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores for each pixel."""
        first = self.first(image)
        second = self.second(self.down(first))
        low = self.bottom(self.down(second))
        rows = low.flatten(2).transpose(1, 2)
        low = low + self.attention(rows, rows, rows, need_weights=False)[0].transpose(1, 2).reshape(low.shape)
        second = self.third(torch.cat([self.up1(low), second], 1))
        return self.last(self.fourth(torch.cat([self.up2(second), first], 1)))


def _unet_group(_: str) -> Export:
    return _images(_UNet(lambda channels: nn.GroupNorm(4, channels), nn.SiLU, False), 32)


def _unet_instance(_: str) -> Export:
    return _images(
        _UNet(lambda channels: nn.InstanceNorm2d(channels, affine=True), lambda: nn.LeakyReLU(0.1), True), 32
    )


class _Features(nn.Sequential):
    """A small backbone; torchvision's detectors want to know its channels."""

    out_channels = 32


def _backbone() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.Hardswish()]
    return _Features(*layers)


class _Detector(nn.Module):
    """A detector of one image, whose results are tensors and no table."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Boxes, labels, scores."""
        found = self.inner([image])[0]
        return found["boxes"], found["labels"], found["scores"]


def _detector(inner: nn.Module) -> Export:
    runs = [(torch.rand(3, 64, 64),), (torch.rand(3, 64, 64),)]
    return Export(_Detector(inner), ["image"], runs, ["boxes", "labels", "scores"])


def _faster_rcnn(_: str) -> Export:
    anchors = AnchorGenerator(((8, 16, 32),), ((0.5, 1.0, 2.0),))
    pool = MultiScaleRoIAlign(["0"], 5, 2)
    return _detector(
        FasterRCNN(
            _backbone(),
            4,
            min_size=64,
            max_size=64,
            rpn_anchor_generator=anchors,
            box_roi_pool=pool,
            rpn_pre_nms_top_n_test=100,
            rpn_post_nms_top_n_test=20,
            box_detections_per_img=10,
            box_score_thresh=0.0,
        )
    )


def _retinanet(_: str) -> Export:
    anchors = AnchorGenerator(((8, 16, 32),), ((0.5, 1.0, 2.0),))
    return _detector(
        RetinaNet(
            _backbone(),
            4,
            min_size=64,
            max_size=64,
            anchor_generator=anchors,
            score_thresh=0.0,
            topk_candidates=50,
            detections_per_img=10,
        )
    )


MODELS = entries(
    {
        "resnet": _resnet,
        "resnext": _resnext,
        "mobilenet_v3": _mobilenet,
        "efficientnet": _efficientnet,
        "efficientnet_v2": _efficientnet_v2,
        "convnext": _convnext,
        "vit": _vit,
        "swin": _swin,
        "swin_v2": (_swin_v2, ("dynamo",)),
        "lraspp": _segmenter,
        "unet_group_norm": _unet_group,
        "unet_instance_norm": _unet_instance,
        "faster_rcnn": (_faster_rcnn, ("torchscript",)),
        "retinanet": (_retinanet, ("torchscript",)),
    }
)
