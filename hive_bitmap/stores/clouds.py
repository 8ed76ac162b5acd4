"""Google Cloud Storage and Azure, by the settings of their Hadoop connectors."""

from __future__ import annotations

from typing import Any

from hive_bitmap.errors import StoreError
from hive_bitmap.stores.objects import Objects, client_options, require_obstore, retries
from hive_bitmap.stores.options import Options

GOOGLE, AZURE = ("gs",), ("abfs", "abfss", "wasb", "wasbs")


def open_google(options: Options, bucket: str) -> Objects:
    """A bucket, by a key file (`google.cloud.auth.service.account.json.keyfile`), else by Google's default chain."""
    require_obstore("gs")
    from obstore.exceptions import BaseError
    from obstore.store import GCSStore

    file = options.get("fs.gs.auth.service.account.json.keyfile") or options.get(
        "google.cloud.auth.service.account.json.keyfile"
    )
    config: Any = {"service_account": file} if file else {}
    advice = "see the settings fs.gs.* and google.cloud.* of the session's Hadoop configuration"
    try:
        client = GCSStore(bucket, config=config, client_options=client_options(options), retry_config=retries(options))
    except (BaseError, ValueError) as e:
        raise StoreError(f"bucket {bucket} cannot be opened: {str(e).splitlines()[0]} ({advice})") from e
    return Objects(client, advice, options.number("parallel"))


def open_azure(options: Options, authority: str) -> Objects:
    """A container, named `container@account.dfs.core.windows.net`. Raises StoreError for an unknown way to log in."""
    require_obstore("abfs")
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore

    container, _, host = authority.partition("@")
    advice = "see the settings fs.azure.* of the session's Hadoop configuration"
    config: Any = {"account_name": host.partition(".")[0], **_azure_keys(options, host)}
    try:
        client = AzureStore(
            container, config=config, client_options=client_options(options), retry_config=retries(options)
        )
    except (BaseError, ValueError) as e:
        raise StoreError(f"container {authority} cannot be opened: {str(e).splitlines()[0]} ({advice})") from e
    return Objects(client, advice, options.number("parallel"))


def _azure_keys(options: Options, host: str) -> dict[str, str]:
    def said(name: str) -> str:
        return options.get(f"{name}.{host}") or options.get(name)

    kind = said("fs.azure.account.auth.type") or "SharedKey"
    if kind == "SharedKey":
        key = said("fs.azure.account.key")
        return {"account_key": key} if key else {}
    if kind == "SAS" and said("fs.azure.sas.fixed.token"):
        return {"sas_key": said("fs.azure.sas.fixed.token")}
    provider = said("fs.azure.account.oauth.provider.type").rpartition(".")[2]
    if kind == "OAuth" and provider == "ClientCredsTokenProvider":
        # https://login.microsoftonline.com/TENANT/oauth2/token
        tenant = said("fs.azure.account.oauth2.client.endpoint").partition("://")[2].split("/")
        return {
            "client_id": said("fs.azure.account.oauth2.client.id"),
            "client_secret": said("fs.azure.account.oauth2.client.secret"),
            "tenant_id": tenant[1] if len(tenant) > 1 else "",
        }
    if kind == "OAuth" and provider == "MsiTokenProvider":
        client = said("fs.azure.account.oauth2.client.id")
        return {"client_id": client} if client else {}
    raise StoreError(
        f"the way to log in to {host} is known to Spark alone: {kind} {provider}; known here: SharedKey, SAS with a "
        "fixed token, OAuth with ClientCredsTokenProvider or MsiTokenProvider (fs.azure.account.auth.type)"
    )
