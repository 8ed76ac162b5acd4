"""Amazon S3 and what speaks its protocol, by the settings of Hadoop's s3a: `fs.s3a.*`, `fs.s3a.bucket.BUCKET.*`."""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_bitmap.errors import StoreError
from hive_bitmap.stores.objects import Objects, client_options, require_obstore, retries
from hive_bitmap.stores.options import Options, flag

SCHEMES = ("s3", "s3a", "s3n")
ADVICE = "see fs.s3a.*, and before it fs.s3a.bucket.{bucket}.*, of the session's Hadoop configuration"
DEFAULT_PROVIDERS = (
    "TemporaryAWSCredentialsProvider, SimpleAWSCredentialsProvider, EnvironmentVariableCredentialsProvider, "
    "IAMInstanceCredentialsProvider"
)
_OF_AWS = re.compile(r"(?:https?://)?(?:.*\.)?s3[.-](?:dualstack\.|fips\.)?(?:([a-z0-9-]+)\.)?amazonaws\.com(?:\.cn)?/?")
_ENCRYPTIONS = {
    "AES256": "AES256",
    "SSE-S3": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
    "SSE-C": "sse-c",
}


@dataclass(frozen=True)
class Keys:
    """Credentials, or none at all: requests are not signed then."""

    access: str = ""
    secret: str = ""
    token: str = ""
    anonymous: bool = False

    def __repr__(self) -> str:
        return "Keys(anonymous)" if self.anonymous else "Keys(..)"


@dataclass(frozen=True)
class OfBucket:
    """What is said of one bucket."""

    options: Options
    bucket: str

    def get(self, name: str, default: str = "") -> str:
        return self.options.get(f"fs.s3a.bucket.{self.bucket}.{name}") or self.options.get(f"fs.s3a.{name}", default)

    def flag(self, name: str, default: bool) -> bool:
        return flag(self.get(name), default)


def open_bucket(options: Options, bucket: str) -> Objects:
    """The store of a bucket. Raises StoreError for what of its settings cannot be carried over."""
    require_obstore("s3a")
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    said = OfBucket(options, bucket)
    keys = keys_of(said)
    advice = ADVICE.format(bucket=bucket)
    try:
        return Objects(S3Store(bucket, **arguments(said, keys)), advice, options.number("parallel"))
    except (BaseError, ValueError) as e:
        raise StoreError(f"bucket {bucket} cannot be opened: {str(e).splitlines()[0]} ({advice})") from e


def arguments(said: OfBucket, keys: Keys | None) -> dict[str, Any]:
    """What obstore takes, in its own words; `keys` are None where it looks for some by itself.

    >>> settings = {"fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false"}
    >>> found = arguments(OfBucket(Options.of(settings), "b"), Keys("a", "s"))
    >>> found["config"], found["client_options"]["allow_http"]
    ({'region': 'us-east-1', 'virtual_hosted_style_request': False, 'endpoint': 'http://127.0.0.1:9000'}, True)
    """
    endpoint, region = said.get("endpoint"), said.get("endpoint.region")
    of_aws = _OF_AWS.fullmatch(endpoint)
    if endpoint and "://" not in endpoint:
        endpoint = f"{'https' if said.flag('connection.ssl.enabled', True) else 'http'}://{endpoint}"
    region = region or (of_aws and of_aws[1]) or os.environ.get("AWS_REGION") or "us-east-1"
    by_path = said.flag("path.style.access", False) or "." in said.bucket or _is_address(endpoint)
    config: dict[str, Any] = {"region": region, "virtual_hosted_style_request": not by_path}
    if endpoint and not (of_aws and not of_aws[1]):  # of AWS, without a region, it is what the region says
        scheme, _, host = endpoint.rstrip("/").partition("://")
        config["endpoint"] = f"{scheme}://{host}" if by_path else f"{scheme}://{said.bucket}.{host}"
    if said.flag("requester.pays.enabled", False):
        config["request_payer"] = True
    config |= _encryption(said)
    found: dict[str, Any] = {
        "config": config,
        "client_options": client_options(said.options, allow_http=endpoint.startswith("http://"), **_proxy(said)),
        "retry_config": retries(said.options),
    }
    if keys is not None and keys.anonymous:
        config["skip_signature"] = True
    elif keys is not None:
        found["credential_provider"] = _given(keys)
    return found


def keys_of(said: OfBucket) -> Keys | None:
    """The keys that the first of the credential providers gives; None where obstore's own chain has to look.

    Raises StoreError for a provider that is not known here: what it does can be anything.
    """
    named = re.split(r"[,\s]+", said.get("aws.credentials.provider", DEFAULT_PROVIDERS))
    for name in filter(None, named):
        short = name.rpartition(".")[2]
        if short not in PROVIDERS:
            raise StoreError(
                f"credential provider {name} of bucket {said.bucket} is known to Spark alone; known here: "
                f"{', '.join(PROVIDERS)} (fs.s3a.aws.credentials.provider)"
            )
        give = PROVIDERS[short]
        if give is None:
            return None
        if (found := give(said)) is not None:
            return found
    raise StoreError(
        f"no credential provider of bucket {said.bucket} gives keys: {', '.join(filter(None, named))} "
        "(fs.s3a.aws.credentials.provider, fs.s3a.access.key, fs.s3a.secret.key)"
    )


def _simple(said: OfBucket) -> Keys | None:
    access, secret = said.get("access.key"), said.get("secret.key")
    return Keys(access, secret) if access and secret else None


def _temporary(said: OfBucket) -> Keys | None:
    keys, token = _simple(said), said.get("session.token")
    return Keys(keys.access, keys.secret, token) if keys is not None and token else None


def _environment(said: OfBucket) -> Keys | None:
    return _known(os.environ, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def _profile(said: OfBucket) -> Keys | None:
    """A section of the file that `aws configure` writes."""
    path = said.get("auth.profile.file") or os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    name = said.get("auth.profile.name") or os.environ.get("AWS_PROFILE", "default")
    found = configparser.RawConfigParser()
    found.read(path or Path.home() / ".aws" / "credentials")
    if not found.has_section(name):
        return None
    return _known(dict(found[name]), "aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def _known(values: Mapping[str, str], access: str, secret: str, token: str) -> Keys | None:
    if not values.get(access) or not values.get(secret):
        return None
    return Keys(values[access], values[secret], values.get(token, ""))


def _anonymous(said: OfBucket) -> Keys | None:
    return Keys(anonymous=True)


def _chain(said: OfBucket) -> Keys | None:
    """What AWS's default chain tries before what obstore knows by itself (web identity, container, instance)."""
    return _environment(said) or (None if "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ else _profile(said))


# Hadoop's and AWS's classes, by what is behind the last point of their names. None: obstore's own chain.
PROVIDERS: dict[str, Callable[[OfBucket], Keys | None] | None] = {
    "SimpleAWSCredentialsProvider": _simple,
    "TemporaryAWSCredentialsProvider": _temporary,
    "AnonymousAWSCredentialsProvider": _anonymous,
    "AnonymousCredentialsProvider": _anonymous,
    "EnvironmentVariableCredentialsProvider": _environment,
    "ProfileCredentialsProvider": _profile,
    "ProfileAWSCredentialsProvider": _profile,
    "IAMInstanceCredentialsProvider": None,
    "InstanceProfileCredentialsProvider": None,
    "ContainerCredentialsProvider": None,
    "EC2ContainerCredentialsProviderWrapper": None,
    "WebIdentityTokenFileCredentialsProvider": None,
    "WebIdentityTokenCredentialsProvider": None,
    "DefaultCredentialsProvider": None,
    "DefaultAWSCredentialsProviderChain": None,
}


def _given(keys: Keys) -> Callable[[], dict[str, Any]]:
    """These keys and no others: obstore would take what is missing of them from the environment."""

    def give() -> dict[str, Any]:
        return {
            "access_key_id": keys.access,
            "secret_access_key": keys.secret,
            "token": keys.token or None,
            "expires_at": None,
        }

    return give


def _encryption(said: OfBucket) -> dict[str, str]:
    """How objects are encrypted that are written. Raises StoreError for what only Hadoop's own client does."""
    name = (said.get("encryption.algorithm") or said.get("server-side-encryption-algorithm")).upper()
    if not name:
        return {}
    if name not in _ENCRYPTIONS:
        raise StoreError(
            f"bucket {said.bucket} is encrypted by {name}, which only Spark's client reads; known here: "
            f"{', '.join(_ENCRYPTIONS)} (fs.s3a.encryption.algorithm)"
        )
    key = said.get("encryption.key") or said.get("server-side-encryption.key")
    named = {"SSE-KMS": "sse_kms_key_id", "DSSE-KMS": "sse_kms_key_id", "SSE-C": "sse_customer_key_base64"}
    return {"server_side_encryption": _ENCRYPTIONS[name]} | ({named[name]: key} if key and name in named else {})


def _proxy(said: OfBucket) -> dict[str, str]:
    host, port = said.get("proxy.host"), said.get("proxy.port")
    if not host:
        return {}
    if said.get("proxy.username"):
        raise StoreError("a proxy that asks for a user (fs.s3a.proxy.username) is known to Spark alone")
    scheme = "https" if said.flag("proxy.ssl.enabled", False) else "http"
    return {"proxy_url": f"{scheme}://{host}" + (f":{port}" if port else "")}


def _is_address(endpoint: str) -> bool:
    """Whether the host is a number, before which no bucket can be put; a port of localhost is one of tests."""
    host = endpoint.partition("://")[2].partition("/")[0].rpartition(":")[0] or endpoint.partition("://")[2]
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost"
    return True
