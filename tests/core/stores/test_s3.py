"""Hadoop's settings of s3a become the arguments of our client, and its credential providers keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_bitmap.core.stores import clouds
from hive_bitmap.core.stores.clouds import BucketSettings, Keys, arguments, keys_of
from hive_bitmap.core.stores.options import PREFIX, Options
from hive_bitmap.errors import StoreError

AWS = [  # endpoint, the region by it, whether the endpoint is passed on
    ("", "us-east-1", False),
    ("s3.amazonaws.com", "us-east-1", False),
    ("https://s3.amazonaws.com", "us-east-1", False),
    ("s3.eu-west-1.amazonaws.com", "eu-west-1", True),
    ("s3-eu-west-1.amazonaws.com", "eu-west-1", True),
    ("https://s3.dualstack.eu-west-1.amazonaws.com/", "eu-west-1", True),
    ("s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", True),
    ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1", True),
    ("bucket.vpce-1a2b3c4d-5e6f.s3.eu-west-1.vpce.amazonaws.com", "eu-west-1", True),
    ("minio.example.com", "us-east-1", True),
    ("s3.example.com", "us-east-1", True),
]
ADDRESSES = ["127.0.0.1", "127.0.0.1:9000", "10.0.0.1/", "10.0.0.1:80/", "localhost", "localhost:9000/", "[::1]"]
ADDRESSES += ["[::1]:9000", "[fe80::1]/"]


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        *("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        *("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def bucket(name: str = "b", **values: str) -> BucketSettings:
    """The settings of a bucket; `__` stands for a dot."""
    named = {f"fs.s3a.{key.replace('__', '.')}": value for key, value in values.items()}
    return BucketSettings(Options.of(named), name)


@pytest.mark.parametrize(("endpoint", "region", "passed"), AWS)
def test_the_region_is_that_of_the_endpoint(endpoint: str, region: str, passed: bool) -> None:
    config = arguments(bucket(endpoint=endpoint), None)["config"]
    assert config["region"] == region and config["virtual_hosted_style_request"] is True
    host = endpoint.removeprefix("https://").rstrip("/")
    assert config.get("endpoint") == (f"https://b.{host}" if passed else None)
    assert arguments(bucket(endpoint=endpoint, endpoint__region="x-1"), None)["config"]["region"] == "x-1"


def test_the_region_of_the_environment_is_the_last_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert arguments(bucket(), None)["config"]["region"] == "ap-south-1"
    assert arguments(bucket(endpoint="s3.eu-west-1.amazonaws.com"), None)["config"]["region"] == "eu-west-1"


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_a_bucket_is_no_subdomain_of_an_address(address: str, scheme: str) -> None:
    found = arguments(bucket(endpoint=scheme + address), None)
    assert found["config"]["virtual_hosted_style_request"] is False
    assert found["config"]["endpoint"] == (scheme or "https://") + address.rstrip("/")
    assert found["client_options"]["allow_http"] is (scheme == "http://")


def test_the_scheme_and_the_style_of_a_named_endpoint() -> None:
    plain = arguments(bucket(endpoint="minio:9000", connection__ssl__enabled="false"), None)
    assert plain["config"]["endpoint"] == "http://b.minio:9000" and plain["client_options"]["allow_http"]
    by_path = arguments(bucket(endpoint="minio:9000", path__style__access="true"), None)["config"]
    assert (by_path["endpoint"], by_path["virtual_hosted_style_request"]) == ("https://minio:9000", False)
    dotted = arguments(bucket("a.b", endpoint="minio:9000"), None)["config"]  # no certificate is for two levels
    assert (dotted["endpoint"], dotted["virtual_hosted_style_request"]) == ("https://minio:9000", False)


def test_the_settings_of_a_bucket_override_those_of_all() -> None:
    values = {"fs.s3a.endpoint": "all:1", "fs.s3a.bucket.b.endpoint": "own:2", "fs.s3a.bucket.c.endpoint": " "}
    settings = Options.of(values)
    assert [BucketSettings(settings, name).get("endpoint") for name in "bcd"] == ["own:2", "all:1", "all:1"]
    ours = Options.of({**values, f"{PREFIX}fs.s3a.bucket.b.endpoint": "ours:3"})
    assert BucketSettings(ours, "b").get("endpoint") == "ours:3"
    assert BucketSettings(settings, "b").get("none", "default") == "default"


def test_keys_are_given_by_the_first_provider_that_has_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simple = {"access__key": "A", "secret__key": "S"}
    assert keys_of(bucket(**simple)) == Keys("A", "S")
    assert keys_of(bucket(**simple, session__token="T")) == Keys("A", "S", "T")
    assert keys_of(bucket(access__key="A")) is None  # the last provider is obstore's own chain
    with pytest.raises(StoreError, match="no credential provider of bucket b gives keys"):
        keys_of(bucket(**simple, aws__credentials__provider="TemporaryAWSCredentialsProvider"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EA")
    assert keys_of(bucket()) is None
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ES")
    assert keys_of(bucket()) == Keys("EA", "ES") and keys_of(bucket(**simple)) == Keys("A", "S")
    asked = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider,\n x.SimpleAWSCredentialsProvider"
    assert keys_of(bucket(**simple, aws__credentials__provider=asked)) == Keys(anonymous=True)
    (tmp_path / ".aws").mkdir()
    profiles = "[default]\naws_access_key_id = P\naws_secret_access_key = %Q\n[other]\naws_access_key_id = O\n"
    (tmp_path / ".aws" / "credentials").write_text(profiles)
    profile = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
    assert keys_of(bucket(aws__credentials__provider=profile)) == Keys("P", "%Q")
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StoreError, match=r"of bucket b gives keys: .*ProfileCredentialsProvider"):
        keys_of(bucket(aws__credentials__provider=profile))


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(
        StoreError, match=r"credential provider com.example.Mine of bucket b is supported by Spark only"
    ):
        keys_of(bucket(access__key="A", secret__key="S", aws__credentials__provider="com.example.Mine"))


def test_keys_are_passed_as_they_are_and_shown_nowhere() -> None:
    found = arguments(bucket(), Keys("A", "S", ""))
    given = found["credential_provider"]()
    assert given == {"access_key_id": "A", "secret_access_key": "S", "token": None, "expires_at": None}
    assert "skip_signature" not in found["config"]
    anonymous = arguments(bucket(), Keys(anonymous=True))
    assert anonymous["config"]["skip_signature"] is True and "credential_provider" not in anonymous
    assert "credential_provider" not in arguments(bucket(), None)
    assert "A" not in repr(Keys("A", "S")).replace("Keys", "") and repr(Keys(anonymous=True)) == "Keys(anonymous)"


@pytest.mark.parametrize(
    ("values", "config"),
    [
        ({}, {}),
        ({"encryption__algorithm": "sse-s3"}, {"server_side_encryption": "AES256"}),
        ({"server-side-encryption-algorithm": "AES256"}, {"server_side_encryption": "AES256"}),
        (
            {"encryption__algorithm": "SSE-KMS", "encryption__key": "K"},
            {"server_side_encryption": "aws:kms", "sse_kms_key_id": "K"},
        ),
        ({"encryption__algorithm": "DSSE-KMS"}, {"server_side_encryption": "aws:kms:dsse"}),
        (
            {"encryption__algorithm": "SSE-C", "server-side-encryption__key": "K"},
            {"server_side_encryption": "sse-c", "sse_customer_key_base64": "K"},
        ),
        ({"requester__pays__enabled": "true"}, {"request_payer": True}),
    ],
)
def test_encryption_and_who_pays(values: dict[str, str], config: dict[str, object]) -> None:
    usual = arguments(bucket(), None)["config"]
    assert arguments(bucket(**values), None)["config"] == {**usual, **config}


def test_what_only_hadoops_client_supports_is_refused() -> None:
    with pytest.raises(
        StoreError, match="encrypted by CSE-KMS, which only Spark's client reads; supported here: AES256"
    ):
        arguments(bucket(encryption__algorithm="CSE-KMS"), None)
    with pytest.raises(StoreError, match=r"a proxy with a user name \(fs.s3a.proxy.username\)"):
        arguments(bucket(proxy__host="p", proxy__username="u"), None)


def test_the_proxy() -> None:
    assert "proxy_url" not in arguments(bucket(proxy__port="1"), None)["client_options"]
    for values, url in (
        ({"proxy__host": "p"}, "http://p"),
        ({"proxy__host": "p", "proxy__port": "1", "proxy__ssl__enabled": "true"}, "https://p:1"),
    ):
        assert arguments(bucket(**values), None)["client_options"]["proxy_url"] == url


def test_every_provider_is_known_by_its_name_without_package() -> None:
    assert all("." not in name for name in clouds.PROVIDERS)
    default = [name.strip() for name in clouds.DEFAULT_PROVIDERS.split(",")]
    assert set(default) <= clouds.PROVIDERS.keys()
