//! Authentication of a queue (NVMe 2.0 §8.13): the exchange of messages around a [`Prover`].

mod prover;
#[cfg(test)]
mod tests;

pub use prover::{Credentials, Prover, Refusal};

use access::Nqn;
use block::Buffer;
use nvme::authentication::Authentication;

use crate::Error;
use crate::connection::Data;
use crate::establish::command;
use crate::queue::QueuePair;

/// Room for a message of the controller: the challenge of the largest group, and to spare.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Proves the host's secret on a queue, and has the controller prove its own if there is one.
pub(crate) async fn authenticate(
    queue: &QueuePair,
    queue_id: u16,
    credentials: &Credentials,
    host_nqn: Nqn,
    subsystem_nqn: Nqn,
) -> Result<(), Error> {
    let prover = Prover::new(credentials.clone(), host_nqn, subsystem_nqn);
    send(queue, prover.offer()).await?;
    let challenge = receive(queue).await?;
    // Diffie-Hellman takes milliseconds that this core has other uses for.
    let (mut prover, reply) = reactor::computing(move || {
        let mut prover = prover;
        let reply = prover.reply(&challenge);
        (prover, reply)
    })
    .await;
    let concluded = match reply {
        Ok(reply) => {
            send(queue, reply).await?;
            prover.conclude(&receive(queue).await?)
        }
        Err(refusal) => Err(refusal),
    };
    match concluded {
        Ok(None) => Ok(()),
        Ok(Some(last)) => send(queue, last).await,
        Err(refusal) => {
            if let Refusal::OfController(failure) = refusal {
                // The connection is given up either way.
                let _ = send(queue, prover.give_up(failure)).await;
            }
            Err(Error::Authentication { queue_id, refusal })
        }
    }
}

async fn send(queue: &QueuePair, message: Vec<u8>) -> Result<(), Error> {
    let entry = *Authentication::send(message.len() as u32).entry();
    command(queue, entry, Data::Out(Buffer::copy_of(&message))).await?;
    Ok(())
}

async fn receive(queue: &QueuePair) -> Result<Vec<u8>, Error> {
    let entry = *Authentication::receive(MESSAGE_BYTES_MAX as u32).entry();
    let data = Data::In(Buffer::zeroed(MESSAGE_BYTES_MAX));
    let (data, _) = command(queue, entry, data).await?;
    Ok(data
        .into_buffer()
        .map(|buffer| buffer.to_vec())
        .unwrap_or_default())
}
