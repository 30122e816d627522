//! Attached volumes: what `flashyard attach` makes and remembers.

use std::path::PathBuf;

use serde::Deserialize;
use tonic::Status;

use super::Work;
use super::connection::Connection;
use super::handed::Handed;
use super::program::run;

/// A line of `flashyard attached`.
#[derive(Clone, Debug, Deserialize)]
pub struct Attachment {
    /// What it is called: the volume's identifier.
    pub name: String,
    /// The block device.
    pub device: PathBuf,
    /// Whether its I/O reaches the volume, in a word.
    pub condition: String,
    /// Why not.
    #[serde(default)]
    pub why: Option<String>,
}

impl Attachment {
    /// Nobody serves it any more.
    pub fn is_gone(&self) -> bool {
        self.condition == "gone"
    }
}

impl Work {
    fn flashyard(&self, arguments: &[&str]) -> Result<String, Status> {
        let directory = self.settings.attached.display().to_string();
        let all = [arguments, &["--directory", &directory]].concat();
        run(&self.settings.program, &all)?.succeeded()
    }

    /// Everything that is attached to this host.
    pub(super) fn attachments(&self) -> Result<Vec<Attachment>, Status> {
        let listed = self.flashyard(&["attached", "--output", "json"])?;
        serde_json::from_str(&listed)
            .map_err(|error| Status::internal(format!("flashyard attached: {error}")))
    }

    /// The volume, if it is attached.
    pub(super) fn attachment(&self, volume: &str) -> Result<Option<Attachment>, Status> {
        let mut all = self.attachments()?.into_iter();
        Ok(all.find(|attachment| attachment.name == volume))
    }

    /// The volume's block device, which is made if there is none.
    pub(super) fn attach(&self, volume: &str, to: &Connection) -> Result<PathBuf, Status> {
        if let Some(there) = self.attachment(volume)?.filter(|one| !one.is_gone()) {
            return Ok(there.device);
        }
        let queues = to.queues.map(|queues| queues.to_string());
        let mut arguments = vec!["attach"];
        arguments.extend(to.targets.iter().map(String::as_str));
        arguments.extend([
            "--name",
            volume,
            "--host-nqn",
            self.settings.host_nqn.as_str(),
        ]);
        if let Some(queues) = &queues {
            arguments.extend(["--queues", queues]);
        }
        let secret = to.secret.as_ref().map(Handed::new).transpose()?;
        let tls_key = to.tls_key.as_ref().map(Handed::new).transpose()?;
        let handed = [
            ("--dhchap-secret-file", &secret),
            ("--tls-key-file", &tls_key),
        ];
        let handed = handed.map(|(option, handed)| (option, handed.as_ref().map(Handed::path)));
        for (option, path) in &handed {
            arguments.extend(path.iter().flat_map(|path| [*option, path]));
        }
        let device = self.flashyard(&arguments)?;
        Ok(PathBuf::from(device))
    }

    /// Takes the volume's block device away, if there is one.
    pub(super) fn detach(&self, volume: &str) -> Result<(), Status> {
        match self.attachment(volume)? {
            Some(_) => self.flashyard(&["detach", volume]).map(drop),
            None => Ok(()),
        }
    }
}
