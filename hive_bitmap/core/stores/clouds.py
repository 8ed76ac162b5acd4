"""Open buckets and containers of S3, Google Cloud Storage and Azure Storage.

Stores that are compatible with Amazon S3 can be opened, too. The settings of Hadoop's connectors configure the stores,
such as `fs.s3a.*` and `fs.s3a.bucket.BUCKET.*` for S3.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hive_bitmap.core.stores.objects import Objects, client_options, opening, require_obstore, retries
from hive_bitmap.core.stores.options import Options, flag
from hive_bitmap.errors import StoreError

S3 = ("s3", "s3a", "s3n")
ADVICE = "see fs.s3a.*, and before it fs.s3a.bucket.{bucket}.*, of the session's Hadoop configuration"
DEFAULT_PROVIDERS = (
    "TemporaryAWSCredentialsProvider, SimpleAWSCredentialsProvider, EnvironmentVariableCredentialsProvider, "
    "IAMInstanceCredentialsProvider"
)
_AWS_ENDPOINT = re.compile(
    r"(?:https?://)?(?:.*\.)?s3[.-](?:dualstack\.|fips\.)?(?:([a-z0-9-]+)\.)?(?:vpce\.)?amazonaws\.com(?:\.cn)?/?"
)
_ENCRYPTIONS = {
    "AES256": "AES256",
    "SSE-S3": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
    "SSE-C": "sse-c",
}
GOOGLE, AZURE = ("gs",), ("abfs", "abfss", "wasb", "wasbs")


@dataclass(frozen=True)
class Keys:
    """Credentials of S3; `anonymous` means no credentials and unsigned requests."""

    access: str = ""
    secret: str = ""
    token: str = ""
    anonymous: bool = False

    def __repr__(self) -> str:
        return "Keys(anonymous)" if self.anonymous else "Keys(..)"


@dataclass(frozen=True)
class BucketSettings:
    """The settings of one bucket; `fs.s3a.bucket.BUCKET.*` overrides `fs.s3a.*`."""

    options: Options
    bucket: str

    def get(self, name: str, default: str = "") -> str:
        return self.options.get(f"fs.s3a.bucket.{self.bucket}.{name}") or self.options.get(f"fs.s3a.{name}", default)

    def flag(self, name: str, default: bool) -> bool:
        return flag(self.get(name), default)


def open_bucket(options: Options, bucket: str) -> Objects:
    """Open a bucket; raise StoreError if a setting is not supported."""
    require_obstore("s3a")
    from obstore.store import S3Store

    settings = BucketSettings(options, bucket)
    keys = keys_of(settings)
    advice = ADVICE.format(bucket=bucket)
    with opening(f"bucket {bucket}", advice):
        return Objects(S3Store(bucket, **arguments(settings, keys)), advice, options.number("parallel"))


def arguments(settings: BucketSettings, keys: Keys | None) -> dict[str, Any]:
    """Return the arguments for obstore's S3Store.

    If `keys` is None, obstore uses its own credential chain.

    >>> options = {"fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false"}
    >>> found = arguments(BucketSettings(Options.of(options), "b"), Keys("a", "s"))
    >>> found["config"], found["client_options"]["allow_http"]
    ({'region': 'us-east-1', 'virtual_hosted_style_request': False, 'endpoint': 'http://127.0.0.1:9000'}, True)
    """
    endpoint, region = settings.get("endpoint"), settings.get("endpoint.region")
    of_aws = _AWS_ENDPOINT.fullmatch(endpoint)
    if endpoint and "://" not in endpoint:
        endpoint = f"{'https' if settings.flag('connection.ssl.enabled', True) else 'http'}://{endpoint}"
    region = region or (of_aws and of_aws[1]) or os.environ.get("AWS_REGION") or "us-east-1"
    by_path = settings.flag("path.style.access", False) or "." in settings.bucket or _is_address(endpoint)
    config: dict[str, Any] = {"region": region, "virtual_hosted_style_request": not by_path}
    if endpoint and not (of_aws and not of_aws[1]):  # an AWS endpoint without a region follows from the region
        scheme, _, host = endpoint.rstrip("/").partition("://")
        config["endpoint"] = f"{scheme}://{host}" if by_path else f"{scheme}://{settings.bucket}.{host}"
    if settings.flag("requester.pays.enabled", False):
        config["request_payer"] = True
    config |= _encryption(settings)
    store_arguments: dict[str, Any] = {
        "config": config,
        "client_options": client_options(
            settings.options, allow_http=endpoint.startswith("http://"), **_proxy(settings)
        ),
        "retry_config": retries(settings.options),
    }
    if keys is not None and keys.anonymous:
        config["skip_signature"] = True
    elif keys is not None:
        store_arguments["credential_provider"] = _provider_of(keys)
    return store_arguments


def keys_of(settings: BucketSettings) -> Keys | None:
    """Return the keys of the first credential provider that has keys.

    Returns None if obstore's own credential chain has to provide them. Raises StoreError if no provider has keys, and
    for an unknown provider.
    """
    named = re.split(r"[,\s]+", settings.get("aws.credentials.provider", DEFAULT_PROVIDERS))
    for name in filter(None, named):
        short = name.rpartition(".")[2]
        if short not in PROVIDERS:
            raise StoreError(
                f"credential provider {name} of bucket {settings.bucket} is supported by Spark only; supported here: "
                f"{', '.join(PROVIDERS)} (fs.s3a.aws.credentials.provider)"
            )
        read_keys = PROVIDERS[short]
        if read_keys is None:
            return None
        if (keys := read_keys(settings)) is not None:
            return keys
    raise StoreError(
        f"no credential provider of bucket {settings.bucket} gives keys: {', '.join(filter(None, named))} "
        "(fs.s3a.aws.credentials.provider, fs.s3a.access.key, fs.s3a.secret.key)"
    )


def _simple(settings: BucketSettings) -> Keys | None:
    access, secret = settings.get("access.key"), settings.get("secret.key")
    return Keys(access, secret) if access and secret else None


def _temporary(settings: BucketSettings) -> Keys | None:
    keys, token = _simple(settings), settings.get("session.token")
    return Keys(keys.access, keys.secret, token) if keys is not None and token else None


def _environment(settings: BucketSettings) -> Keys | None:
    return _keys_in(os.environ, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def _profile(settings: BucketSettings) -> Keys | None:
    """Return the keys of a profile in the credentials file that `aws configure` writes.

    Return None if the file has no such profile, or the profile has no keys.
    """
    path = settings.get("auth.profile.file") or os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    name = settings.get("auth.profile.name") or os.environ.get("AWS_PROFILE", "default")
    profiles = configparser.RawConfigParser()
    profiles.read(path or Path.home() / ".aws" / "credentials")
    if not profiles.has_section(name):
        return None
    return _keys_in(dict(profiles[name]), "aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def _keys_in(values: Mapping[str, str], access: str, secret: str, token: str) -> Keys | None:
    if not values.get(access) or not values.get(secret):
        return None
    return Keys(values[access], values[secret], values.get(token, ""))


def _anonymous(settings: BucketSettings) -> Keys | None:
    return Keys(anonymous=True)


def _chain(settings: BucketSettings) -> Keys | None:
    """Return the keys in the environment or, failing that, in the credentials file.

    The environment and the file are sources of AWS's default chain; obstore itself tries all further sources. Return
    None if neither has keys. With AWS_WEB_IDENTITY_TOKEN_FILE, another source precedes the file, so the file is not
    read.
    """
    return _environment(settings) or (None if "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ else _profile(settings))


# Credential providers of Hadoop and AWS by their class names without package. None stands for obstore's own chain.
PROVIDERS: dict[str, Callable[[BucketSettings], Keys | None] | None] = {
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


def _provider_of(keys: Keys) -> Callable[[], dict[str, Any]]:
    """Return a provider of these keys for obstore.

    If the keys were passed as settings, obstore could add a token from the environment.
    """

    def give() -> dict[str, Any]:
        return {
            "access_key_id": keys.access,
            "secret_access_key": keys.secret,
            "token": keys.token or None,
            "expires_at": None,
        }

    return give


def _encryption(settings: BucketSettings) -> dict[str, str]:
    """Return the settings of server-side encryption.

    Raises StoreError for algorithms that only Hadoop's client supports.
    """
    name = (settings.get("encryption.algorithm") or settings.get("server-side-encryption-algorithm")).upper()
    if not name:
        return {}
    if name not in _ENCRYPTIONS:
        raise StoreError(
            f"bucket {settings.bucket} is encrypted by {name}, which only Spark's client reads; supported here: "
            f"{', '.join(_ENCRYPTIONS)} (fs.s3a.encryption.algorithm)"
        )
    key = settings.get("encryption.key") or settings.get("server-side-encryption.key")
    named = {"SSE-KMS": "sse_kms_key_id", "DSSE-KMS": "sse_kms_key_id", "SSE-C": "sse_customer_key_base64"}
    return {"server_side_encryption": _ENCRYPTIONS[name]} | ({named[name]: key} if key and name in named else {})


def _proxy(settings: BucketSettings) -> dict[str, str]:
    host, port = settings.get("proxy.host"), settings.get("proxy.port")
    if not host:
        return {}
    if settings.get("proxy.username"):
        raise StoreError("a proxy with a user name (fs.s3a.proxy.username) is supported by Spark only")
    scheme = "https" if settings.flag("proxy.ssl.enabled", False) else "http"
    return {"proxy_url": f"{scheme}://{host}" + (f":{port}" if port else "")}


def _is_address(endpoint: str) -> bool:
    """Return whether the host of an endpoint is an IP address or localhost.

    Such a host cannot have a bucket as a subdomain.
    """
    host = urlsplit(endpoint).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def open_google(options: Options, bucket: str) -> Objects:
    """Open a bucket of Google Cloud Storage.

    The credentials come from the configured key file or, without a key file, from Google's default chain. The setting
    `fs.gs.auth.service.account.json.keyfile` names the key file; if it is missing,
    `google.cloud.auth.service.account.json.keyfile` does. Raises StoreError.
    """
    require_obstore("gs")
    from obstore.store import GCSStore

    file = options.get("fs.gs.auth.service.account.json.keyfile") or options.get(
        "google.cloud.auth.service.account.json.keyfile"
    )
    config: Any = {"service_account": file} if file else {}
    advice = "see the settings fs.gs.* and google.cloud.* of the session's Hadoop configuration"
    with opening(f"bucket {bucket}", advice):
        client = GCSStore(bucket, config=config, client_options=client_options(options), retry_config=retries(options))
    return Objects(client, advice, options.number("parallel"))


def open_azure(options: Options, authority: str) -> Objects:
    """Open a container of Azure Storage.

    `authority` has the form `container@account.dfs.core.windows.net`. Raises StoreError for an authentication type that
    is not supported.
    """
    require_obstore("abfs")
    from obstore.store import AzureStore

    container, _, host = authority.partition("@")
    advice = "see the settings fs.azure.* of the session's Hadoop configuration"
    config: Any = {"account_name": host.partition(".")[0], **_azure_keys(options, host)}
    with opening(f"container {authority}", advice):
        client = AzureStore(
            container, config=config, client_options=client_options(options), retry_config=retries(options)
        )
    return Objects(client, advice, options.number("parallel"))


def _azure_keys(options: Options, host: str) -> dict[str, str]:
    def setting(name: str) -> str:
        return options.get(f"{name}.{host}") or options.get(name)

    kind = setting("fs.azure.account.auth.type") or "SharedKey"
    if kind == "SharedKey":
        key = setting("fs.azure.account.key")
        return {"account_key": key} if key else {}
    if kind == "SAS" and setting("fs.azure.sas.fixed.token"):
        return {"sas_key": setting("fs.azure.sas.fixed.token")}
    provider = setting("fs.azure.account.oauth.provider.type").rpartition(".")[2]
    if kind == "OAuth" and provider == "ClientCredsTokenProvider":
        # https://login.microsoftonline.com/TENANT/oauth2/token
        tenant = setting("fs.azure.account.oauth2.client.endpoint").partition("://")[2].split("/")
        return {
            "client_id": setting("fs.azure.account.oauth2.client.id"),
            "client_secret": setting("fs.azure.account.oauth2.client.secret"),
            "tenant_id": tenant[1] if len(tenant) > 1 else "",
        }
    if kind == "OAuth" and provider == "MsiTokenProvider":
        client = setting("fs.azure.account.oauth2.client.id")
        return {"client_id": client} if client else {}
    raise StoreError(
        f"the login to {host} by {kind} {provider} is supported by Spark only; supported here: SharedKey, SAS with a "
        "fixed token, OAuth with ClientCredsTokenProvider or MsiTokenProvider (fs.azure.account.auth.type)"
    )
