//! Objects of S3 stores that hold streams: `snapshot send --to`, `volume receive --from`.
//!
//! A stream goes through a pipe, as it does to a file. A thread beside moves what is in the pipe to
//! the store or from it, so neither side knows of the other.

mod download;
mod error;
mod upload;

use std::io;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ClientConfigKey, ClientOptions, RetryConfig};
use tokio::runtime::{Builder, Runtime};

pub use self::download::download;
pub use self::error::StoreError;
pub use self::upload::upload;
use super::error::CopyError;

const SCHEME: &str = "s3://";
/// Names of buckets have so many characters, and keys so many bytes at most.
const BUCKET_CHARACTERS: std::ops::RangeInclusive<usize> = 3..=63;
const KEY_BYTES_MAX: usize = 1024;

/// A store that takes no connection within this time is absent.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A request that failed is sent again for so long.
const RETRY_FOR: Duration = Duration::from_secs(60);
const RETRIES_MAX: usize = 8;
/// What a store answers within, whatever it is asked, beside the time that its bytes take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// The slowest way to a store on which requests end in time.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;

/// An object of an S3 store, as `s3://BUCKET/KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    bucket: String,
    key: Path,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
    }
}

impl FromStr for Object {
    type Err = String;

    fn from_str(text: &str) -> Result<Object, String> {
        let allowed = "allowed: s3://BUCKET/KEY";
        let parts = text.strip_prefix(SCHEME);
        let parts = parts.and_then(|rest| rest.split_once('/'));
        let (bucket, key) = parts.ok_or(allowed)?;
        let is_of_buckets = |it: char| it.is_ascii_alphanumeric() || ".-_".contains(it);
        if !BUCKET_CHARACTERS.contains(&bucket.len()) || !bucket.chars().all(is_of_buckets) {
            return Err(format!(
                "\"{bucket}\" is not the name of a bucket; {allowed}, with a bucket of 3 to 63 \
                 letters, digits, hyphens and dots"
            ));
        }
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(format!(
                "the key has {} bytes; {allowed}, with a key of 1 to {KEY_BYTES_MAX} bytes",
                key.len()
            ));
        }
        let key = Path::parse(key).map_err(|error| format!("{error}; {allowed}"))?;
        Ok(Object {
            bucket: bucket.to_owned(),
            key,
        })
    }
}

/// An object, and a way to its store.
struct Reached {
    object: Object,
    store: AmazonS3,
    runtime: Runtime,
}

impl Reached {
    /// Takes endpoint, region and credentials from the `AWS_` variables of the environment, as
    /// other programs do. No request has more than `bytes_max` bytes.
    fn of(object: &Object, bytes_max: u64) -> Result<Reached, CopyError> {
        let transfer = Duration::from_secs(bytes_max / BYTES_PER_SECOND_MIN);
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT_WITHIN)
            .with_timeout(ANSWERS_WITHIN + transfer);
        let retries = RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_FOR,
            ..RetryConfig::default()
        };
        let builder = AmazonS3Builder::new().with_client_options(client);
        let builder = with_environment(builder);
        check_encrypted(&builder).map_err(|error| CopyError::Store {
            object: object.to_string(),
            error,
        })?;
        let store = builder
            .with_bucket_name(&object.bucket)
            .with_retry(retries)
            .build()
            .map_err(failed(object))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Reached {
            object: object.clone(),
            store,
            runtime: runtime.map_err(CopyError::Output)?,
        })
    }
}

/// What the environment says goes before what is set here.
fn with_environment(mut builder: AmazonS3Builder) -> AmazonS3Builder {
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            continue;
        };
        let is_of_stores = name.starts_with("AWS_");
        let key = is_of_stores.then(|| name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>());
        if let Some(Ok(key)) = key {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

/// Data goes in the clear to no store, unless that is asked for.
fn check_encrypted(builder: &AmazonS3Builder) -> Result<(), StoreError> {
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let in_the_clear = endpoint.filter(|endpoint| endpoint.starts_with("http:"));
    let allow = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
    let is_allowed = builder.get_config_value(&allow).as_deref() == Some("true");
    match in_the_clear {
        Some(endpoint) if !is_allowed => Err(StoreError::InTheClear(endpoint)),
        _ => Ok(()),
    }
}

/// Why there is no copy, by what a store said of an object.
fn failed(object: &Object) -> impl Fn(object_store::Error) -> CopyError + Copy {
    move |error| CopyError::Store {
        object: object.to_string(),
        error: error.into(),
    }
}

/// Runs one side on a thread of its own and the other side here.
fn beside<S: Send, T>(
    side: impl FnOnce() -> S + Send,
    here: impl FnOnce() -> T,
) -> io::Result<(S, T)> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("store".to_owned());
        let side = thread.spawn_scoped(scope, side)?;
        let here = here();
        let side = side.join();
        let side = side.map_err(|_| io::Error::other("the store's thread ended by a fault"))?;
        Ok((side, here))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_a_bucket_and_a_key() {
        for text in [
            "s3://backups/data/monday.fys",
            "s3://a.b-c/k",
            "s3://abc/it's%20one",
        ] {
            let object: Object = text.parse().unwrap();
            assert_eq!(object.to_string(), text);
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_is_allowed() {
        let long = format!("s3://abc/{}", "k".repeat(1025));
        for (text, found) in [
            ("backups/monday", "allowed: s3://BUCKET/KEY"),
            ("s3://backups", "allowed: s3://BUCKET/KEY"),
            ("https://backups/monday", "allowed: s3://BUCKET/KEY"),
            ("s3://backups/", "the key has 0 bytes"),
            ("s3:///monday", "\"\" is not the name of a bucket"),
            ("s3://a/monday", "\"a\" is not the name of a bucket"),
            ("s3://user@host/monday", "\"user@host\" is not the name"),
            ("s3://backups/a//b", "allowed"),
            ("s3://backups/../b", "allowed"),
            (&long, "the key has 1025 bytes"),
        ] {
            let error = text.parse::<Object>().unwrap_err();
            assert!(error.contains(found), "{text}: {error}");
            assert!(error.contains("allowed"), "{text}: {error}");
        }
    }
}
