//! [`Service`]: the calls of a service, each handed to what does its work.

use std::sync::Arc;

use tonic::{Request, Response, Status};

/// A service over its work. Each call waits for others, so it has a thread of its own, and goes on
/// when the caller has gone.
pub struct Service<W>(pub Arc<W>);

impl<W: Send + Sync + 'static> Service<W> {
    /// Has `work` done for a request.
    pub async fn ask<Q: Send + 'static, A: Send + 'static>(
        &self,
        request: Request<Q>,
        work: fn(&W, Q) -> Result<A, Status>,
    ) -> Result<Response<A>, Status> {
        let worker = Arc::clone(&self.0);
        let asked = request.into_inner();
        let done = tokio::task::spawn_blocking(move || work(&worker, asked)).await;
        let failed = |error| Status::internal(format!("the call's thread failed: {error}"));
        done.map_err(failed)?.map(Response::new)
    }
}

/// The calls of the service `$service`, each with the method of `Work` that does its work.
macro_rules! calls {
    ($service:ident: $($call:ident: $request:ident -> $response:ident = $work:path,)+) => {
        #[tonic::async_trait]
        impl $service for $crate::calls::Service<Work> {
            $(async fn $call(
                &self,
                request: tonic::Request<$request>,
            ) -> Result<tonic::Response<$response>, tonic::Status> {
                self.ask(request, $work).await
            })+
        }
    };
}

pub(crate) use calls;
