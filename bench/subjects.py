"""Who is measured: a provider with one of its settings, and how a worker opens a session on it."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

EP = "CUDAExecutionProvider"


@dataclass(frozen=True)
class Setting:
    """Options of a provider under one name, and the cases (name or group patterns) where they can matter."""

    options: Mapping[str, str] = field(default_factory=dict)
    only: str = "*"
    offline: str = ""  # model type that the host's offline transformer optimiser rewrites first
    fixed: bool = False  # the model's open dimensions are set in the session options: the host fuses more then


MODELS = "model,quantised,full,sweep"  # groups of cases
_IMAGES = "resnet50*,mobilenet_v3*,efficientnet_b0*,convnext_tiny*,detector*"
_GRAPH = {"enable_cuda_graph": "1"}
_NHWC = {"prefer_nhwc": "1"}
# Plans chosen by measurement; the first is upstream's default.
_MEASURED = {"cudnn_conv_algo_search": "EXHAUSTIVE", "tunable_op_enable": "1", "tunable_op_tuning_enable": "1"}
_LONG_ROWS = (
    "LayerNormalization/*x32768,LayerNormalization/*x65536,LayerNormalization/*x131072,LayerNormalization/*x262144"
)
_NODES = {"compiled_regions": "0"}  # node by node
_UNCOMPILED = {"compiled_engines": "0"}  # libraries' own engines alone
# The settings of upstream's provider; "default" is the provider without options.
UPSTREAM = {
    "default": Setting(),
    "graph": Setting(_GRAPH, f"host,{MODELS}"),
    "nhwc": Setting(_NHWC, _IMAGES),
    "nhwc+graph": Setting({**_NHWC, **_GRAPH}, _IMAGES),
    "fixed": Setting({}, "bert*", fixed=True),
    "fixed+graph": Setting(_GRAPH, "bert*", fixed=True),
    "offline": Setting({}, "bert*", "bert"),
    "offline+graph": Setting(_GRAPH, "bert*", "bert"),
    "fp32": Setting({"use_tf32": "0"}, "product/float32*"),
}
# The settings of this provider. What upstream's option names ask for here is documented in the options table.
OURS = {
    "default": Setting(),
    "graph": Setting(_GRAPH, f"host,{MODELS},elementwise*"),
    "measured": Setting(_MEASURED, MODELS),
    "uncompiled": Setting(_UNCOMPILED, MODELS),
    "nodes": Setting(_NODES, f"host,{MODELS},export,elementwise*"),
    "nodes+graph": Setting({**_NODES, **_GRAPH}, f"host,{MODELS},elementwise*"),
    "nodes+measured": Setting({**_NODES, **_MEASURED}, "resnet50*"),
    "nodes+graph+measured": Setting({**_NODES, **_GRAPH, **_MEASURED}, "resnet50*"),
    "nodes+fixed": Setting(_NODES, "bert*", fixed=True),
    "nodes+fixed+graph": Setting({**_NODES, **_GRAPH}, "bert*", fixed=True),
    "nodes+fixed+graph+measured": Setting({**_NODES, **_GRAPH, **_MEASURED}, "bert*", fixed=True),
    "nhwc": Setting(_NHWC, _IMAGES),
    "nhwc+graph": Setting({**_NHWC, **_GRAPH}, _IMAGES),
    "nhwc+graph+measured": Setting({**_NHWC, **_GRAPH, **_MEASURED}, "resnet50*"),
    "fp32": Setting({"use_tf32": "0"}, "product/float32*"),
    **{path: Setting({"norm_path": path}, _LONG_ROWS) for path in ("ring", "long")},
}
# Of torch itself: how the module is compiled, if at all. Measuring every kernel takes minutes a model.
TORCH = {
    "eager": Setting({"mode": "eager"}, MODELS),
    "reduce-overhead": Setting({"mode": "reduce-overhead"}, MODELS),
    "max-autotune": Setting({"mode": "max-autotune"}, "resnet50*,bert*"),
}


@dataclass(frozen=True)
class Subject:
    """A provider, a build and a setting.

    `kind`: plugin (ours), builtin (upstream's), cpu, torch (no provider), bare (launches alone).
    """

    name: str
    kind: str
    library: str = ""  # of a plug-in, or the launch loop's
    site: str = ""  # folder with the onnxruntime to import; empty: the one of this environment
    options: dict[str, str] = field(default_factory=dict)
    only: str = "*"
    offline: str = ""
    fixed: bool = False

    def takes(self, name: str, group: str) -> bool:
        """Whether it is measured on a case."""
        if self.kind == "bare" and group != "host":
            return False
        return any(fnmatch.fnmatch(name, pattern) or group == pattern for pattern in self.only.split(","))

    def describe(self) -> dict[str, Any]:
        """Its entry in a report: no path of the machine, but a hash of the library."""
        found = asdict(self)
        del found["site"], found["only"]
        found["library"] = Path(self.library).name
        if self.library:
            found["sha256"] = hashlib.sha256(Path(self.library).read_bytes()).hexdigest()[:16]
        return found

    def environment(self) -> dict[str, str]:
        """Of its worker: its onnxruntime first, and the vendor libraries of the nvidia packages on the library path."""
        root = Path(__file__).resolve().parent.parent
        places = [self.site, str(root), str(root / "python"), os.environ.get("PYTHONPATH", "")]
        folders = [str(path) for place in sys.path if place for path in sorted(Path(place).glob("nvidia/*/lib"))]
        libraries = [*folders, os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, places)),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        }


def builds(library: str, name: str, settings: str) -> list[Subject]:
    """Subjects of one build of ours, one for each wanted setting."""
    return [
        Subject(
            _name(name, key), "plugin", library, options=dict(setting.options), only=setting.only, fixed=setting.fixed
        )
        for key, setting in _chosen(OURS, settings)
    ]


def upstream(site: str, settings: str) -> list[Subject]:
    """Subjects of upstream's provider as the onnxruntime-gpu in `site` brings it."""
    return [
        Subject(
            _name("upstream", key),
            "builtin",
            "",
            site,
            dict(setting.options),
            setting.only,
            setting.offline,
            setting.fixed,
        )
        for key, setting in _chosen(UPSTREAM, settings)
    ]


def torch(modes: str) -> list[Subject]:
    """Subjects of torch in some of its modes, by name; "all" names all."""
    return [
        Subject(f"torch:{mode}", "torch", options=dict(setting.options), only=setting.only)
        for mode, setting in _chosen(TORCH, modes)
    ]


def _name(provider: str, setting: str) -> str:
    return provider if setting == "default" else f"{provider}:{setting}"


def _chosen(settings: Mapping[str, Setting], wanted: str) -> list[tuple[str, Setting]]:
    """Those named; "all" names all. Names that only the other provider has are passed over."""
    names = list(settings) if wanted == "all" else wanted.split(",")
    known = TORCH if settings is TORCH else UPSTREAM | OURS
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no setting is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [(name, settings[name]) for name in names if name in settings]
