"""`ort-cuda-ep doctor`: what was found, where, in which version; what is wrong and how to mend it."""

import typer
from rich.markup import escape
from rich.table import Column, Table

from .._version import __version__
from ..diagnosis import NOTE, OK, PROBLEM, Finding, diagnose
from .output import CHECK_FAILED, console, print_json
from .parameters import AsJson, DeviceKind

_MARKS = {OK: "[green]ok[/green]", NOTE: "[yellow]note[/yellow]", PROBLEM: "[red]problem[/red]"}


def doctor(
    device: DeviceKind = "auto",
    as_json: AsJson = False,
) -> None:
    """Say what the provider finds on this machine, what is wrong and how to mend it.

    Exit code 1 when there is a problem; that includes a GPU that is expected and cannot be used. A GPU is expected when
    the machine shows one (on the PCI bus, by device files or through the driver) that CUDA_VISIBLE_DEVICES does not
    hide, or with --device cuda; never with --device sim.
    """
    findings = diagnose(device)
    problems = [finding for finding in findings if finding.state == PROBLEM]
    if as_json:
        print_json({"ok": not problems, "version": __version__, "findings": [vars(finding) for finding in findings]})
    else:
        _print(findings, len(problems))
    if problems:
        raise typer.Exit(CHECK_FAILED)


def _print(findings: list[Finding], problems: int) -> None:
    table = Table(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold"), box=None, show_header=False)
    section = ""
    for finding in findings:
        if finding.section != section:
            section = finding.section
            table.add_row("", f"[bold]{escape(section)}[/bold]", "")
        advice = f"\n[yellow]{escape(finding.advice)}[/yellow]" if finding.advice else ""
        table.add_row(_MARKS[finding.state], escape(finding.subject), escape(finding.detail) + advice)
    console.print(table, highlight=False)
    verdict = f"[red]{problems} problem{'s' * (problems > 1)}[/red]" if problems else "[green]no problem[/green]"
    console.print(f"\n{verdict}", highlight=False)
