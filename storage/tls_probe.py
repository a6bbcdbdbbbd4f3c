"""Why a server cannot be reached: asked once more, by hand, for a message that says what to mend."""

from __future__ import annotations

import socket
import ssl

from firn.model.errors import Misconfigured


def client_context(
    *, authority: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool = True
) -> ssl.SSLContext:
    """What a client needs to speak TLS, from PEM files. Raises Misconfigured for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            # Without a password, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password=password or "")
    except OSError as error:  # ssl.SSLError is one
        raise Misconfigured(
            f"TLS: cannot use {', '.join(filter(None, (authority, certificate, key)))}: {error.strerror or error} (is "
            "each a PEM file that may be read, do certificate and key belong together, is the key's password right?)"
        ) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def why_unreachable(hosts: str, *, context: ssl.SSLContext | None, timeout_s: float = 2.0) -> str:
    """What each of `hosts` (``host:port,host:port``) does when it is connected to, in words."""
    return "; ".join(f"{address}: {_found(address, context, timeout_s)}" for address in hosts.split(","))


def _found(address: str, context: ssl.SSLContext | None, timeout_s: float) -> str:
    host, _, port = address.strip().rpartition(":")
    try:
        plain = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
        with plain:
            if context is not None:
                context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        return f"no TLS: {error.reason or error}"
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    except ValueError:
        return "is no host:port"
    return "takes connections, and does not answer (does it want TLS, or a client's certificate?)"
