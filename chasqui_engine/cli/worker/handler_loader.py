"""Loads the handler that a command line names: `module:handler`, `module:registry`, or `module` alone."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from chasqui_engine import Handler, HandlerRegistry
from chasqui_engine.cli.session import USAGE, fail
from chasqui_engine.consumer import check_handler
from chasqui_engine.worker import registry


def load_handler(target: str) -> Handler:
    """The handler; modules are searched in the current folder first, as `python -m` does."""
    module_name, _, attribute = target.partition(":")
    if not module_name:
        fail(f"{target!r} names no module", "write module:handler, for example tasks:handle", exit_code=USAGE)
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(module_name)
    if not attribute:
        return registry.dispatcher()
    found = _attribute(module, module_name, attribute)
    return found.dispatcher() if isinstance(found, HandlerRegistry) else check_handler(found)


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as err:
        if err.name is not None and (name == err.name or name.startswith(f"{err.name}.")):
            fail(f"there is no module {name!r} here or on the path", "run in its folder, or set PYTHONPATH")
        fail(f"module {name} needs {err.name!r}, which is not installed", f"install {err.name}, then start again")
    except Exception as err:  # noqa: BLE001 - a user's module may raise anything
        fail(f"module {name} cannot be imported: {type(err).__name__}: {err}", "run with --debug to see the traceback")


def _attribute(module: Any, module_name: str, path: str) -> Any:
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            fail(f"module {module_name} has no {path!r}", "check the name after the colon", exit_code=USAGE)
        found = getattr(found, part)
    return found
