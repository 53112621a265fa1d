"""Who is measured: this proxy, the routers of others where they can be started, and nobody."""

import json
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.proxy.processes import Pinned, wait_until

START_S = 60.0
Command = Callable[["Place"], "tuple[list[str], dict[str, str]]"]


class NotRunError(Exception):
    """A contestant that cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Place:
    """Where a contestant serves and what stands behind it.

    Parameters
    ----------
    port
        Where it listens.
    prefill, decode
        Ports of the upstream.
    folder
        For files of its own.
    python
        Interpreter of the environment it is installed in.
    """

    port: int
    prefill: Sequence[int]
    decode: Sequence[int]
    folder: Path
    python: Path


@dataclass(frozen=True)
class Contestant:
    """One router.

    Parameters
    ----------
    name
        In the table.
    distribution
        On the package index, for its version.
    command
        Arguments and environment that start it.
    ours
        Whether it runs in this environment.
    """

    name: str
    distribution: str
    command: Command
    ours: bool = False

    def start(self, place: Place, *, core: int) -> Pinned:
        """Start it and wait until a request passes.

        Raises
        ------
        NotRunError
            If it does not start.
        """
        arguments, env = self.command(place)
        if not Path(arguments[0]).exists():
            raise NotRunError("not installed in the environment given by --peer-python")
        log = place.folder / f"{self.name}.log"
        running = Pinned(arguments, core=core, env=env, log=log)
        try:
            wait_until(
                lambda: not running.alive() or _answers(place.port),
                timeout_s=START_S,
                what=f"start of {self.name}",
            )
        except TimeoutError as error:
            running.stop()
            raise NotRunError(f"{error}; last words: {_last_words(log)}") from error
        if not running.alive():
            running.stop()
            raise NotRunError(f"ended at once: {_last_words(log)}")
        return running


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _brtheory(place: Place) -> tuple[list[str], dict[str, str]]:
    prefill = [f'{{name = "p{port}", url = "{_url(port)}"}}' for port in place.prefill]
    decode = [f'{{name = "d{port}", url = "{_url(port)}", slots = 1024}}' for port in place.decode]
    settings = {
        "server.port": place.port,
        "admin.enabled": "false",
        "log.requests": "false",
        "log.level": "warning",
        "pool.requests": 4096,
        "pool.queue": 8192,
        "upstream.connect_s": 60,
        "prefill": f"[{', '.join(prefill)}]",
        "decode": f"[{', '.join(decode)}]",
    }
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    main = "from brtheory.cli.main import main; main()"
    return [str(place.python), "-c", main, "serve", *flags], {}


def _vllm_router(place: Place) -> tuple[list[str], dict[str, str]]:
    nodes = [part for port in place.prefill for part in ("--prefill", _url(port))]
    nodes += [part for port in place.decode for part in ("--decode", _url(port))]
    options = ["--vllm-pd-disaggregation", "--kv-connector", "nixl", "--policy", "round_robin"]
    where = ["--host", "127.0.0.1", "--port", str(place.port)]
    limits = ["--max-concurrent-requests", "8192", "--prometheus-port", str(free_port())]
    program = str(place.python.parent / "vllm-router")
    return [program, *where, *options, *limits, "--log-level", "error", *nodes], {}


def _xpyd(place: Place) -> tuple[list[str], dict[str, str]]:
    config = {
        "model": "m",
        "host": "127.0.0.1",
        "port": place.port,
        "prefill": [f"127.0.0.1:{port}" for port in place.prefill],
        "decode": [f"127.0.0.1:{port}" for port in place.decode],
        "scheduling": "roundrobin",
    }
    # JSON is YAML.
    path = place.folder / "xpyd.yaml"
    path.write_text(json.dumps(config))
    program = str(place.python.parent / "xpyd")
    return [program, "--config", str(path), "--log-level", "error"], {"HF_HUB_OFFLINE": "1"}


CONTESTANTS = (
    Contestant("brtheory", "brtheory", _brtheory, ours=True),
    Contestant("vllm-router", "vllm-router", _vllm_router),
    Contestant("xpyd-proxy", "xpyd-proxy", _xpyd),
)
"""In the order of the table."""

OWN_PYTHON = Path(sys.executable)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    body = b'{"prompt":"x","max_tokens":1,"model":"m"}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    raw = head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(raw)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:160] if lines else "none"
