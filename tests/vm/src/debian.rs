//! Debian's own kernels, fetched with a package index of our own, so that the machine's package
//! configuration stays as it is. The mirror and its settings are the machine's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::output_of;

/// A release of Debian whose kernel is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Debian 12, Linux 6.1.
    Bookworm,
    /// Debian 13, Linux 6.12.
    Trixie,
}

/// An unpacked kernel package.
pub struct Kernel {
    /// Its release as `uname -r` prints it.
    pub release: String,
    /// The boot image.
    pub image: PathBuf,
    /// The directory with `modules.dep` and the modules.
    pub modules: PathBuf,
}

impl Suite {
    /// Debian's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Bookworm => "bookworm",
            Suite::Trixie => "trixie",
        }
    }

    /// The suite's kernel, fetched into `directory` unless it is there already.
    ///
    /// # Errors
    /// The package cannot be fetched or unpacked.
    pub fn kernel(self, directory: &Path) -> Result<Kernel> {
        let unpacked = directory.join("kernel");
        if !unpacked.exists() {
            let partial = directory.join("kernel.partial");
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            let package = self.fetch(directory)?;
            output_of(
                Command::new("dpkg-deb")
                    .arg("--extract")
                    .arg(&package)
                    .arg(&partial),
            )?;
            fs::remove_file(&package)?;
            fs::rename(&partial, &unpacked)?;
        }
        Kernel::unpacked_at(&unpacked)
    }

    /// Downloads the kernel package into `directory`.
    fn fetch(self, directory: &Path) -> Result<PathBuf> {
        println!("fetching the kernel of Debian {}", self.name());
        let apt = Apt::of(Origin::Release(self), &directory.join("apt"))?;
        output_of(apt.command("apt-get").arg("update"))?;
        let meta = output_of(apt.command("apt-cache").args([
            "show",
            "--no-all-versions",
            "linux-image-amd64",
        ]))?;
        let depends = meta.lines().find_map(|line| line.strip_prefix("Depends: "));
        let name = depends.and_then(|names| names.split([' ', ',']).next());
        let name = name.with_context(|| format!("no kernel package is named in:\n{meta}"))?;
        output_of(
            apt.command("apt-get")
                .args(["download", name])
                .current_dir(directory),
        )?;
        let packages = files_in(directory)?;
        let package = packages.into_iter().find(|path| {
            path.extension().is_some_and(|extension| extension == "deb")
                && path
                    .file_name()
                    .is_some_and(|file| file.to_string_lossy().starts_with(name))
        });
        package.with_context(|| format!("{name} did not arrive in {}", directory.display()))
    }
}

/// A place in Debian's archive that packages are taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A release.
    Release(Suite),
    /// What is newest: experimental, and unstable for what that lacks.
    Newest,
}

impl Origin {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Origin::Release(suite) => suite.name(),
            Origin::Newest => "experimental",
        }
    }

    /// The suites that apt takes packages of.
    fn suites(self) -> &'static [&'static str] {
        match self {
            Origin::Release(Suite::Bookworm) => &["bookworm"],
            Origin::Release(Suite::Trixie) => &["trixie"],
            Origin::Newest => &["experimental", "unstable"],
        }
    }

    /// Packages with everything they depend on, unpacked into `directory`/`name` unless they are
    /// there already.
    ///
    /// # Errors
    /// A package cannot be fetched or unpacked.
    pub fn unpacked(self, directory: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
        let unpacked = directory.join(name);
        if unpacked.exists() {
            return Ok(unpacked);
        }
        println!("fetching {} of Debian {}", packages.join(", "), self.name());
        let apt = Apt::of(self, &directory.join(format!("{name}.apt")))?;
        output_of(apt.command("apt-get").arg("update"))?;
        // As on a machine on which nothing is installed.
        let nothing = apt.directory.join("status");
        fs::write(&nothing, "")?;
        let mut download = apt.command("apt-get");
        download
            .arg("-o")
            .arg(format!("Dir::State::status={}", nothing.display()));
        // Experimental is left aside otherwise.
        let preferred = self.suites()[0];
        download.args(["-o", &format!("APT::Default-Release={preferred}")]);
        download.args([
            "-o",
            "Debug::NoLocking=1",
            "--yes",
            "--no-install-recommends",
        ]);
        output_of(download.args(["--download-only", "install"]).args(packages))?;
        let partial = directory.join(format!("{name}.partial"));
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        for package in files_in(&apt.directory.join("archives"))? {
            if package
                .extension()
                .is_some_and(|extension| extension == "deb")
            {
                let mut extract = Command::new("dpkg-deb");
                output_of(extract.arg("--extract").arg(&package).arg(&partial))?;
            }
        }
        fs::rename(&partial, &unpacked)?;
        Ok(unpacked)
    }
}

impl Kernel {
    fn unpacked_at(directory: &Path) -> Result<Kernel> {
        let image = files_in(&directory.join("boot"))?.into_iter().find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        });
        let image = image.with_context(|| format!("no vmlinuz in {}", directory.display()))?;
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let release = name.trim_start_matches("vmlinuz-").to_owned();
        // Debian 13 keeps modules below /usr.
        let bases = [directory.join("usr"), directory.to_path_buf()];
        let base = bases
            .iter()
            .find(|base| base.join("lib/modules").join(&release).exists());
        let base = base.with_context(|| format!("no modules in {}", directory.display()))?;
        let modules = base.join("lib/modules").join(&release);
        if !modules.join("modules.dep").exists() {
            let mut depmod = Command::new("depmod");
            depmod.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
            output_of(depmod.arg("--basedir").arg(base).arg(&release))?;
        }
        Ok(Kernel {
            release,
            image,
            modules,
        })
    }
}

/// Apt with lists and caches of its own; everything else is the machine's configuration.
struct Apt {
    directory: PathBuf,
    sources: Option<PathBuf>,
}

impl Apt {
    /// Knows `origin` only, from the mirror that the machine is set to.
    fn of(origin: Origin, directory: &Path) -> Result<Apt> {
        let mut apt = Apt::as_configured(directory)?;
        let sources = apt.directory.join("sources.list");
        let mirror = apt.mirror()?;
        let suites = origin.suites().iter();
        let lines: String = suites
            .map(|suite| format!("deb {mirror} {suite} main\n"))
            .collect();
        fs::write(&sources, lines)?;
        apt.sources = Some(sources);
        Ok(apt)
    }

    fn as_configured(directory: &Path) -> Result<Apt> {
        for name in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(directory.join(name))?;
        }
        // Apt wants absolute paths.
        Ok(Apt {
            directory: directory.canonicalize()?,
            sources: None,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let directory = self.directory.display();
        command
            .arg("-o")
            .arg(format!("Dir::State::lists={directory}/lists"));
        command.arg("-o").arg(format!("Dir::Cache={directory}"));
        if let Some(sources) = &self.sources {
            command
                .arg("-o")
                .arg(format!("Dir::Etc::sourcelist={}", sources.display()));
            command.args(["-o", "Dir::Etc::sourceparts=/dev/null"]);
        }
        // The user that apt otherwise drops to may not reach this directory.
        command.args([
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Languages=none",
        ]);
        command
    }

    /// Where the machine gets Debian's main archive from. Apt tells once it has fetched lists.
    fn mirror(&self) -> Result<String> {
        output_of(self.command("apt-get").arg("update"))?;
        let format = "$(CREATED_BY) $(COMPONENT) $(RELEASE) $(REPO_URI)";
        let mut targets = self.command("apt-get");
        let targets = output_of(targets.args(["indextargets", "--format", format]))?;
        // Updates and security have releases of longer names.
        let main = targets
            .lines()
            .find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
                ["Packages", "main", "bookworm" | "trixie" | "stable", mirror] => Some(mirror),
                _ => None,
            });
        let mirror = main.context("apt has no source for Debian's main archive")?;
        Ok(mirror.to_owned())
    }
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
