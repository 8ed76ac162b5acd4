"""Google Cloud Storage and Azure Storage, configured by the settings of their Hadoop connectors."""

from __future__ import annotations

from typing import Any

from hive_bitmap.core.stores.objects import Objects, client_options, opening, require_obstore, retries
from hive_bitmap.core.stores.options import Options
from hive_bitmap.errors import StoreError

GOOGLE, AZURE = ("gs",), ("abfs", "abfss", "wasb", "wasbs")


def open_google(options: Options, bucket: str) -> Objects:
    """Open a bucket of Google Cloud Storage.

    The configured key file (`google.cloud.auth.service.account.json.keyfile`) is used. Without a configured key file,
    Google's default chain of credentials is used. Raises StoreError.
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
