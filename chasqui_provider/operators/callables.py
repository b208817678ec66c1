"""Functions and iterators as values of template fields.

Airflow calls whatever can be called in a template field while it renders, as `f(context=…, jinja_env=…)`. Most
functions take something else, and none has to run for the page that shows the rendered fields. So an operator keeps
them in a `Source`, which rendering leaves alone, and reads it when it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from chasqui_provider.version_compat import determine_kwargs

if TYPE_CHECKING:
    from airflow.sdk.definitions._internal.templater import Templater


class Source:
    """A function to call, or an iterator to read, when the task runs.

    Its text is the same in every process: Airflow takes a DAG whose text has changed for a new version of it.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<callable {_name(self.value)}>" if callable(self.value) else f"<{_name(type(self.value))}>"


def keep_unrendered(value: Any) -> Any:
    """The value of a template field, wrapped in a `Source` if it must not be rendered."""
    return Source(value) if callable(value) or isinstance(value, Iterator) else value


def value_of(field: Any, context: Any, owner: Templater) -> Any:
    """The value of a rendered field: an iterator, the return value of a function, or the value itself."""
    if not isinstance(field, Source):
        return field
    return _call(field.value, context, owner) if callable(field.value) else field.value


def _call(function: Callable[..., Any], context: Any, owner: Templater) -> Any:
    """The return value of a function that takes any part of the context by name.

    `context` and `jinja_env` are there too: that is what a callable in a template field is given elsewhere in Airflow.
    """
    offered = {**context, "context": context, "jinja_env": owner.get_template_env()}
    try:
        kwargs = determine_kwargs(function, (), offered)
    except ValueError:
        kwargs = {}  # functions written in C may have no signature
    return function(**kwargs)


def _name(value: Any) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
