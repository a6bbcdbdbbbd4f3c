"""Errors as the REST specification answers them: ``{"error": {"message", "type", "code"}}`` (``ErrorModel``).

Types and texts are those of the reference implementation: clients raise by the type and show the text. One middleware
makes all of these answers, so that handlers only raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from firn.coordinator.catalog.statuses import (
    ALREADY_EXISTS,
    BAD_REQUEST,
    NOT_NOW,
    STATE_UNKNOWN,
    CatalogError,
    Status,
)
from firn.model.errors import (
    AlreadyExists,
    FirnError,
    InvalidInput,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.log import get_logger

NO_SUCH_NAMESPACE: Final = Status(404, "NoSuchNamespaceException")
NAMESPACE_NOT_EMPTY: Final = Status(409, "NamespaceNotEmptyException")
NOT_THERE: Final = Status(404, "NotFoundException")
NOT_AUTHORIZED: Final = Status(401, "NotAuthorizedException")
UNPROCESSABLE: Final = Status(422, "UnprocessableEntityException")
NO_SUCH_ROUTE: Final = Status(404, "BadRequestException")
NOT_SUPPORTED: Final = Status(405, "UnsupportedOperationException")
INTERNAL: Final = Status(500, "InternalServerError")

RETRY_AFTER_S: Final = 2
"""How long a client waits that is answered while a server does not answer."""

CLIENT_LEFT: Final = 499
"""The status that proxies log for a client that ended the connection before its answer."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log: Any = get_logger()


def no_such_namespace(namespace: Sequence[str]) -> CatalogError:
    """Return the answer about a namespace that does not exist."""
    return CatalogError(NO_SUCH_NAMESPACE, f"Namespace does not exist: {'.'.join(namespace)}")


def error_answer(status: Status, message: str, *, retry_after_s: int | None = None) -> web.Response:
    """Return the response for an error."""
    body = {"error": {"message": message, "type": status.error, "code": status.code}}
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if status.code == NOT_AUTHORIZED.code:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(
        status=status.code, body=msgspec.json.encode(body), content_type="application/json", headers=headers
    )


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what handlers raise; an error that nobody expected is logged, and its text is not sent."""
    try:
        return await handler(request)
    except CatalogError as error:
        return error_answer(error.status, error.message, retry_after_s=error.retry_after_s)
    except web.HTTPException as error:
        return _of_http(request, error)
    except FirnError as error:
        return _of_firn(error)
    except OSError as error:
        if request.transport is None or request.transport.is_closing():
            return web.Response(status=CLIENT_LEFT)
        return _unexpected(request, error)
    except Exception as error:  # noqa: BLE001 - the client gets an answer, the log what happened
        return _unexpected(request, error)


def _of_firn(error: FirnError) -> web.Response:
    match error:
        case InvalidInput():
            return error_answer(BAD_REQUEST, str(error))
        case NotFound():
            return error_answer(NOT_THERE, str(error))
        case AlreadyExists():
            return error_answer(ALREADY_EXISTS, str(error))
        case UnknownOutcome():
            return error_answer(STATE_UNKNOWN, str(error))
        case Unavailable():
            return error_answer(NOT_NOW, str(error), retry_after_s=RETRY_AFTER_S)
    _log.error("catalog: request failed", reason=f"{type(error).__name__}: {error}")
    return error_answer(INTERNAL, str(error))


def _of_http(request: web.Request, error: web.HTTPException) -> web.Response:
    """Aiohttp's own: no such route, a method that there is not, a body that is too large."""
    match error.status:
        case HTTPStatus.NOT_FOUND:
            return error_answer(
                Status(404, "BadRequestException"), f"there is no route {request.method} {request.path}"
            )
        case HTTPStatus.METHOD_NOT_ALLOWED:
            answer = error_answer(NOT_SUPPORTED, f"{request.method} is not supported at {request.path}")
            answer.headers["Allow"] = error.headers.get("Allow", "")
            return answer
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return error_answer(
                Status(413, "BadRequestException"), f"the body is larger than {request.client_max_size} bytes"
            )
    return error_answer(Status(error.status, "BadRequestException"), error.reason)


def _unexpected(request: web.Request, error: Exception) -> web.Response:
    _log.error(
        "catalog: request failed", method=request.method, path=request.path, reason=f"{type(error).__name__}: {error}",
        exc_info=error,
    )  # fmt: skip
    return error_answer(INTERNAL, f"an error of the catalog's own ({type(error).__name__}): its log has more")
