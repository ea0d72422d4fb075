"""Makes the listener's TLS context from the files that the settings name.

Everything that is wrong with the files is found at the start, before anything listens, and is one
line that names the setting and the file.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from ..configuration import Configuration
from ..errors import StartError
from .tls_alerts import AlertingContext

_MINIMUM_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def tls_context(configuration: Configuration) -> ssl.SSLContext | None:
    """Make the server's context; None if no certificate is configured. StartError if it cannot."""
    certificate, key = configuration.tls_certificate, configuration.tls_key
    authorities = configuration.tls_ca_certificates
    verify = configuration.tls_verify_client
    if not certificate:
        for name in ("tls_key", "tls_ca_certificates"):
            if getattr(configuration, name):
                raise StartError(f"{name} is set, but no tls_certificate")
        return None
    if not key:
        raise StartError("tls_certificate is set, but no tls_key")
    if verify != "none" and not authorities:
        raise StartError(f"tls_verify_client is {verify}, but there are no tls_ca_certificates")
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _MINIMUM_VERSIONS[configuration.tls_version_min]
    context.verify_mode = _VERIFY_MODES[verify]
    for name in ("tls_certificate", "tls_key", "tls_ca_certificates"):
        _check_readable(name, getattr(configuration, name))
    _check_has_certificates("tls_certificate", certificate)
    _load_pair(context, certificate, key)
    if authorities:
        _check_has_certificates("tls_ca_certificates", authorities)
        context.load_verify_locations(authorities)
    return context


# What OpenSSL says of the key of another certificate: if it is of the same kind, and if not.
_MISMATCHES = frozenset({"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})


def _check_readable(name: str, file: str) -> None:
    if not file:
        return
    try:
        with Path(file).open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise StartError(f"{name}: {file}: cannot be read: {error.strerror}") from None


def _check_has_certificates(name: str, file: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        raise StartError(f"{name}: {file}: no certificate in it") from None


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            fault = f"{key} is not the key of the certificate in {certificate}"
        elif error.reason:
            fault = f"{key} with {certificate}: {error.reason.lower().replace('_', ' ')}"
        else:
            fault = f"{key}: no private key in it, or one that needs a password"
        raise StartError(f"tls_key: {fault}") from None
