"""What all replicas have said of themselves, as Prometheus metrics."""

from collections.abc import Mapping
from typing import Any

from ort_cuda_ep import prometheus_texts


def render(replicas: Mapping[str, Mapping[str, Any]]) -> str:
    """The provider's metrics of every replica, and the replicas' own: answers by status, batches, resident memory."""
    lines = [
        "# HELP serve_answers_total Answers by HTTP status",
        "# TYPE serve_answers_total counter",
        *(
            f'serve_answers_total{{replica="{name}",status="{status}"}} {count}'
            for name, figures in replicas.items()
            for status, count in sorted(figures["replica"]["answers"].items())
        ),
    ]
    own = (
        ("serve_batches_total", "counter", "Runs of the model", "batches"),
        ("process_resident_memory_bytes", "gauge", "Resident memory of the replica's process", "resident_bytes"),
    )
    for name, kind, help_text, key in own:
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        lines += [f'{name}{{replica="{label}"}} {figures["replica"][key]}' for label, figures in replicas.items()]
    provider = prometheus_texts({name: figures["provider"] for name, figures in replicas.items()}, "replica")
    return "\n".join(lines) + "\n" + provider
