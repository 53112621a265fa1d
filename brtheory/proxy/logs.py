"""Logs on standard error, for people or for machines; one line for each request."""

import json
import logging
import sys
from datetime import UTC, datetime

from brtheory.proxy.settings import LogSettings

ROOT = "brtheory"
HTTP = "brtheory.proxy.http"
"""Logger of the HTTP parser, which tells a traceback for every broken request."""
_FIELDS = "fields"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = getattr(record, _FIELDS, {})
        tail = "".join(f" {key}={value}" for key, value in fields.items() if value is not None)
        line = f"{time} {record.levelname.lower():7} {record.getMessage()}{tail}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logs(settings: LogSettings) -> None:
    """Send the package's log records to standard error in the chosen format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.format == "json" else _Human())
    logger = logging.getLogger(ROOT)
    logger.handlers = [handler]
    logger.setLevel(settings.level.upper())
    logger.propagate = False
    if settings.level != "debug":
        logging.getLogger(HTTP).setLevel(logging.CRITICAL)


def log_fields(logger: logging.Logger, message: str, **fields: object) -> None:
    """One line with fields."""
    logger.info(message, extra={_FIELDS: fields})
