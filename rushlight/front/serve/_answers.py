"""Errors as the server writes them: TorchServe's code, type and message."""

import json


class Refused(Exception):
    """A call that is answered with an error."""

    def __init__(self, status, kind, message, headers=None):
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers or {}


def fault(status, kind, message):
    """Head and body of an answer that says what went wrong."""
    body = json.dumps({"code": status, "type": kind, "message": message}).encode()
    return {"content_type": "application/json", "headers": {}}, body


def not_found(name, version=None):
    """The answer where there is no such model or version."""
    if version is None:
        return Refused(404, "ModelNotFoundException", f"Model not found: {name}")
    return Refused(
        404,
        "ModelVersionNotFoundException",
        f"Model version: {version} does not exist for model: {name}",
    )


def bad(message):
    """The answer where the call is wrong."""
    return Refused(400, "BadRequestException", message)
