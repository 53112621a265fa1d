"""The configuration: defaults, then the TOML file, then the environment, then flags; last wins.

``BRTHEORY_PROXY_POOL__REQUESTS=64`` and ``--set pool.requests=64`` set the same field. Values there
are TOML values; text that is none is a string. An error names the layer and the field.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError

from brtheory.contracts import read_text
from brtheory.errors import InputError
from brtheory.proxy.connectors import make_connector
from brtheory.proxy.settings import LOOPBACK, Settings
from brtheory.proxy.ticker import RouterChoice

ENV_PREFIX = "BRTHEORY_PROXY_"
LEVELS = "__"


def load_settings(
    path: Path | None, *, environment: Mapping[str, str], flags: Sequence[str] = ()
) -> Settings:
    """Read all layers and check the result.

    Parameters
    ----------
    path
        TOML file, None for none.
    environment
        Usually ``os.environ``; only names with the prefix are looked at.
    flags
        ``section.field=value`` texts.

    Raises
    ------
    InputError
        Naming layer and field, if something is unknown, out of range or contradictory.
    """
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    if path is not None:
        _merge(merged, _read_toml(path), origin=origin, layer=str(path))
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX):
            dotted = name.removeprefix(ENV_PREFIX).lower().replace(LEVELS, ".")
            layer = f"environment {name}"
            _merge(merged, _nested(dotted, environment[name], layer), origin=origin, layer=layer)
    for flag in flags:
        dotted, equals, text = flag.partition("=")
        if not equals:
            raise InputError("--set", "section.field=value", repr(flag))
        layer = f"--set {dotted}"
        _merge(merged, _nested(dotted.strip(), text, layer), origin=origin, layer=layer)
    settings = _validate(merged, origin)
    check_settings(settings)
    return with_secrets(settings)


def check_settings(settings: Settings) -> None:
    """Check what concerns several fields at once.

    Raises
    ------
    InputError
        If the parts do not fit together.
    """
    connector = make_connector(settings.connector.name, lease_s=settings.connector.lease_s)
    router = settings.router
    RouterChoice(router.name, router.params, router.predictor, router.seed, router.backend).build()
    if not settings.decode:
        raise InputError("decode", "at least one decode node", "none")
    if (connector.lease_s is not None) != bool(settings.prefill):
        raise InputError(
            "prefill",
            f"{'at least one' if connector.lease_s is not None else 'no'} prefill node with "
            f"connector {connector.name}",
            len(settings.prefill),
        )
    for node in settings.prefill:
        if connector.needs_bootstrap and node.bootstrap_url is None:
            raise InputError(f"prefill {node.name}", "a bootstrap_url with this connector", None)
    server, admin = settings.server, settings.admin
    for section, side in (("server", server), ("upstream", settings.upstream)):
        if (side.tls_cert is None) != (side.tls_key is None):
            raise InputError(f"{section}.tls_cert", "both tls_cert and tls_key, or neither", "one")
    keyed = admin.key is not None or admin.key_file is not None
    if admin.enabled and admin.host not in LOOPBACK and not keyed:
        raise InputError("admin.key", "a key where admin.host is not loopback", "none")
    if admin.enabled and admin.port == server.port != 0 and admin.host == server.host:
        raise InputError("admin.port", "an address of its own", admin.port)


def with_secrets(settings: Settings) -> Settings:
    """Read the key files into the keys.

    Raises
    ------
    InputError
        If a file has no key.
    """
    server, admin, upstream = settings.server, settings.admin, settings.upstream
    if server.api_keys_file is not None:
        keys = [*server.api_keys, *_keys(server.api_keys_file)]
        server = server.model_copy(update={"api_keys": keys})
    if admin.key_file is not None:
        admin = admin.model_copy(update={"key": _keys(admin.key_file)[0]})
    if upstream.api_key_file is not None:
        upstream = upstream.model_copy(update={"api_key": _keys(upstream.api_key_file)[0]})
    return settings.model_copy(update={"server": server, "admin": admin, "upstream": upstream})


def as_toml(settings: Settings) -> str:
    """The effective configuration as TOML that reads back; secrets are masked."""
    document = json.loads(settings.model_dump_json())
    lines: list[str] = []
    for section, fields in document.items():
        if isinstance(fields, dict):
            lines += ["", f"[{section}]", *_toml_fields(fields)]
        for table in fields if isinstance(fields, list) else ():
            lines += ["", f"[[{section}]]", *_toml_fields(table)]
    return "\n".join(lines).lstrip() + "\n"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), "TOML", error) from error


def _nested(dotted: str, text: str, layer: str) -> dict[str, Any]:
    parts = dotted.split(".")
    if not all(parts):
        raise InputError(layer, "section.field", repr(dotted))
    value: Any = _value(text, wanted=_field_type(parts))
    for part in reversed(parts):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _value(text: str, *, wanted: object) -> Any:
    """A TOML value, or the text itself where that is what the field holds."""
    if wanted in (str, SecretStr, Path):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _field_type(parts: Sequence[str]) -> object:
    """The type a dotted field holds, None left out of unions; None where there is no such field."""
    model: Any = Settings
    for part in parts:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return None
        if part not in model.model_fields:
            return None
        model = _without_none(model.model_fields[part].annotation)
    return model


def _without_none(annotation: Any) -> Any:
    options = [option for option in get_args(annotation) if option is not type(None)]
    optional = len(options) == 1 and type(None) in get_args(annotation)
    return options[0] if optional else annotation


def _merge(
    into: dict[str, Any],
    part: dict[str, Any],
    *,
    origin: dict[str, str],
    layer: str,
    prefix: str = "",
) -> None:
    for key, value in part.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, origin=origin, layer=layer, prefix=f"{dotted}.")
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], value, origin=origin, layer=layer, prefix=f"{dotted}.")
        else:
            into[key] = value
            origin[dotted] = layer


def _validate(merged: dict[str, Any], origin: Mapping[str, str]) -> Settings:
    try:
        # Lax only where TOML has no type of its own: paths and secrets come as strings.
        return Settings.model_validate_json(json.dumps(merged, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        names = [str(part) for part in first["loc"] if not isinstance(part, int)]
        dotted = ".".join(str(part) for part in first["loc"])
        prefixes = [".".join(names[:length]) for length in range(len(names), 0, -1)]
        layer = next((origin[prefix] for prefix in prefixes if prefix in origin), "configuration")
        told = first["msg"].lower().removeprefix("input should be ")
        expected = "a known setting" if first["type"] == "extra_forbidden" else told
        got = "one that is not" if first["type"] == "extra_forbidden" else repr(first["input"])
        raise InputError(f"{layer}: {dotted}", expected, got[:60]) from error


def _keys(path: Path) -> list[SecretStr]:
    keys = [SecretStr(line.strip()) for line in read_text(path).splitlines() if line.strip()]
    if not keys:
        raise InputError(str(path), "a key on a line", "none")
    return keys


def _toml_fields(fields: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml_value(value)}" for key, value in fields.items() if value is not None]


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(k)} = {_toml_value(v)}" for k, v in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(part) for part in value) + "]"
    return json.dumps(value)
