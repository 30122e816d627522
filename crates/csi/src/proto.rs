//! The messages and services that `proto/csi.proto` describes, with clients for tests.
#![allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    reason = "what is made from the description has the form that its maker gives it"
)]

tonic::include_proto!("csi.v1");
