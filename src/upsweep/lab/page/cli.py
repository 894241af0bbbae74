"""The command `upsweep lab`."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from upsweep.lab.page.html import known, offline
from upsweep.lab.page.server import Lab


class _OpensKernels(typer.core.TyperGroup):
    """`upsweep lab brent-kung` is short for `upsweep lab open brent-kung`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["open", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_OpensKernels, help="Play the textbook's kernels step by step, and do the exercises.")


@app.command("open")
def open_(
    kernel: Annotated[str, typer.Argument(help="A kernel of the textbook, or a mistake.")] = "brent-kung",
    html: Annotated[Path | None, typer.Option(help="Write the page to this file instead, to be read offline.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Show a kernel step by step: a page served to this machine alone, or a file."""
    try:
        known(kernel)
    except KeyError as unknown:
        _fail(unknown.args[0])
    if html is not None:
        size = offline(html, kernel)
        print(f"{html}: {size / 1e6:.1f} MB, needs no network")
        return
    server = Lab(kernel)
    print(f"{server.url}\nfor you alone; ends with Ctrl-C", flush=True)
    if browser:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


def _fail(message: str) -> None:
    print(f"upsweep: {message}", file=sys.stderr)
    raise typer.Exit(1)
