"""What can go wrong with a request, and how a client is told, in the OpenAI error shape.

The status says whose fault it is: 4xx the client's, 429 and 503 come with a time to wait, 502 and
504 name the upstream. Error bodies of upstream nodes are not built here: they pass through.
"""

import json

from brtheory.errors import BrtheoryError

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
}


class RequestError(BrtheoryError):
    """A request answered with an error of the proxy's own.

    Parameters
    ----------
    status
        HTTP status, 400 .. 599.
    message
        One line for the client; never an address or a key of the deployment.
    param
        The field at fault, None where there is none.
    code
        A stable word for programs, e.g. ``pool_full``.
    retry_after_s
        Whole seconds after which trying again makes sense, for 429 and 503.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        """The JSON body, as the OpenAI API shapes errors."""
        return error_body(self.status, self.message, param=self.param, code=self.code)


def error_body(
    status: int, message: str, *, param: str | None = None, code: str | None = None
) -> bytes:
    """An OpenAI error object; ``type`` follows from the status."""
    kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"message": message, "type": kind, "param": param, "code": code or status}
    return json.dumps({"error": error}).encode()
