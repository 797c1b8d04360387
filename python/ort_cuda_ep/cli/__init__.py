"""The command line `ort-cuda-ep`.

Exit codes: 0 all is well; 1 a check failed (numbers differ, something needed is missing); 2 wrong usage or unusable
input; 3 the provider, the host or a session failed.
"""

import typer

from .doctor import doctor
from .explain import explain
from .optimize import optimize
from .profile import profile
from .run import run
from .tune import tune

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command()(run)
app.command()(explain)
app.command()(doctor)
app.command()(tune)
app.command()(profile)
app.command()(optimize)


def main() -> None:
    """Entry point of the console script."""
    app()
