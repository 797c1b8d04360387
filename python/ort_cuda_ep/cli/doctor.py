"""`ort-cuda-ep doctor`: what was found, where, in which version; what is missing and how to get it."""

import os
import platform
from dataclasses import dataclass
from typing import Annotated, Any

import onnxruntime as ort
import typer
from rich.markup import escape
from rich.table import Column, Table

from .. import _provider, vendor
from .._library import LIBRARY_VARIABLE, find_library, gpu_names
from .._version import __version__
from .output import CHECK_FAILED, console, print_json

OLDEST_HOST = (1, 24)


@dataclass(frozen=True)
class Finding:
    """One line: `state` is "ok", "missing" (needed) or "note"; `advice` says what to do, if anything."""

    subject: str
    state: str
    detail: str
    advice: str = ""


def doctor(
    device: Annotated[str, typer.Option(help="auto, cuda or sim")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object instead of text")] = False,
) -> None:
    """Say what the provider finds on this machine, what is missing and how to get it."""
    findings = [*_host(), *_libraries(), *_gpus(), *_registration(device), *_vendor_libraries()]
    ok = all(finding.state != "missing" for finding in findings)
    if as_json:
        print_json({"ok": ok, "version": __version__, "findings": [vars(finding) for finding in findings]})
    else:
        _print(findings)
    if not ok:
        raise typer.Exit(CHECK_FAILED)


def _host() -> list[Finding]:
    version = tuple(int(part) for part in ort.__version__.split(".")[:2])
    supported = version >= OLDEST_HOST
    advice = "" if supported else "install onnxruntime 1.24 or newer"
    return [
        Finding("ort-cuda-ep", "ok", __version__),
        Finding("Python", "ok", platform.python_version()),
        Finding("ONNX Runtime", "ok" if supported else "missing", ort.__version__, advice),
    ]


def _libraries() -> list[Finding]:
    findings = []
    for device, what in (("sim", "simulated device"), ("cuda", "NVIDIA GPUs")):
        path = find_library(device)
        advice = "" if path else f"in a source tree: make {device}"
        findings.append(Finding(f"library for {what}", "ok" if path else "note", str(path or "not built"), advice))
    override = os.environ.get(LIBRARY_VARIABLE)
    if override:
        findings.append(Finding(LIBRARY_VARIABLE, "note", override))
    return findings


def _gpus() -> list[Finding]:
    names = gpu_names()
    if names:
        return [Finding(f"GPU {ordinal}", "ok", name) for ordinal, name in enumerate(names)]
    return [Finding("GPU", "note", "none", "for a GPU: NVIDIA's driver, 580 or newer; the simulated device needs none")]


def _registration(device: str) -> list[Finding]:
    try:
        path = _provider.register(device)  # type: ignore[arg-type]
    except Exception as error:
        return [Finding("provider", "missing", str(error), "build the library: make sim, or make cuda")]
    findings = [Finding("provider", "ok", f"{_provider.get_ep_name()} from {path}")]
    found = _provider.devices()
    if not found:
        findings.append(
            Finding("devices", "missing", "the library offers none", "set the host's log level to 1 and retry")
        )
    for ordinal, entry in enumerate(found):
        metadata = ", ".join(
            f"{key}={value}" for key, value in sorted(entry.ep_metadata.items()) if key != "library_path"
        )
        findings.append(Finding(f"device {ordinal}", "ok", f"{_provider.device_label(ordinal)} ({metadata})"))
    return findings


def _vendor_libraries() -> list[Finding]:
    needed = bool(gpu_names()) and find_library("cuda") is not None
    findings = []
    for library in vendor.LIBRARIES:
        where = vendor.locate(library.soname)
        state = "ok" if where else "missing" if needed and not library.optional else "note"
        detail = f"{library.purpose}: {where or 'not found'}"
        advice = "" if where else f"on a GPU: pip install {library.wheel}"
        findings.append(Finding(library.soname, state, detail, advice))
    return findings


def _print(findings: list[Finding]) -> None:
    marks: dict[str, Any] = {"ok": "[green]ok[/green]", "note": "[yellow]--[/yellow]", "missing": "[red]missing[/red]"}
    table = Table("", "what", Column("found", overflow="fold"), box=None)
    for finding in findings:
        advice = f"\n[yellow]{escape(finding.advice)}[/yellow]" if finding.advice else ""
        table.add_row(marks[finding.state], escape(finding.subject), escape(finding.detail) + advice)
    console.print(table)
