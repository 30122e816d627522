//! Packs an initramfs: the machine's own tools and our program with the libraries they load, the
//! kernel modules an NVMe/TCP host needs, and the agent as `/init`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::output_of;
use crate::cpio::Archive;
use crate::debian::{Kernel, Suite};

/// What a boot needs.
pub struct Image {
    /// The suite it is made of.
    pub suite: Suite,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
}

/// The programs a host is tested with. Everything else is busybox.
const PROGRAMS: [&str; 12] = [
    "/usr/sbin/nvme",
    "/usr/bin/fio",
    "/usr/sbin/mke2fs",
    "/usr/sbin/e2fsck",
    "/usr/sbin/resize2fs",
    "/usr/sbin/mkfs.xfs",
    "/usr/sbin/xfs_growfs",
    "/usr/sbin/xfs_repair",
    "/usr/sbin/blkdiscard",
    "/usr/sbin/blkid",
    "/usr/bin/keyctl",
    "/usr/sbin/mdadm",
];

/// Modules to load at boot, in this order, each after what it depends on.
const MODULES: [&str; 18] = [
    "virtio_pci",
    "virtio_net",
    "virtio_rng",
    "virtio_blk",
    "crc32c_generic",
    "crc32c-intel",
    "hmac",
    "sha256_generic",
    "sha512_generic",
    "dh_generic",
    "nvme",
    "nvme-tcp",
    "tls",
    "ctr",
    "ghash-generic",
    "gcm",
    "ext4",
    "xfs",
];

/// Modules that a scenario loads itself: disks in memory, MD's RAID 6, which measures for a second
/// how fast it is, what a root on this machine's files needs, and a link between two name spaces.
const LATER: [&str; 6] = ["brd", "raid456", "9pnet_virtio", "9p", "overlay", "veth"];

/// Modules of RDMA: a device of software over a network of its own, which may be a bad one, and
/// hosts and controllers over it.
const RDMA: [&str; 7] = [
    "dummy",
    "sch_netem",
    "crc32_generic",
    "rdma_rxe",
    "rdma_ucm",
    "nvme-rdma",
    "nvmet-rdma",
];

const DIRECTORIES: [&str; 17] = [
    "bin",
    "dev",
    "etc",
    "etc/nvme",
    "lib",
    "lib64",
    "mnt",
    "modules",
    "modules/later",
    "modules/rdma",
    "proc",
    "run",
    "sys",
    "tmp",
    "usr",
    "var",
    "root",
];

impl Image {
    /// Fetches the kernel of `suite` and packs its initramfs with our `programs`, both below
    /// `directory`.
    ///
    /// # Errors
    /// The kernel cannot be fetched, or a tool that belongs into the image is missing.
    pub fn build(suite: Suite, programs: &[&Path], directory: &Path) -> Result<Image> {
        let directory = directory.join(suite.name());
        fs::create_dir_all(&directory)?;
        let kernel = suite.kernel(&directory)?;
        let initramfs = directory.join("initramfs.cpio");
        let partial = directory.join(format!("initramfs.{}", std::process::id()));
        pack(&kernel, programs, &partial).context("cannot pack the initramfs")?;
        fs::rename(&partial, &initramfs)?;
        Ok(Image {
            suite,
            release: kernel.release,
            kernel: kernel.image,
            initramfs,
        })
    }
}

fn pack(kernel: &Kernel, programs: &[&Path], path: &Path) -> Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(path)?));
    for directory in DIRECTORIES {
        archive.directory(directory)?;
    }
    // The kernel opens it for /init before anything is mounted.
    archive.character_device("dev/console", (5, 1))?;
    archive.file("init", include_bytes!("agent.sh"))?;
    archive.file("bin/answer", include_bytes!("answer.sh"))?;
    archive.file("bin/nvme-device", include_bytes!("nvme-device.sh"))?;
    archive.file("bin/busybox", &read("/bin/busybox")?)?;
    archive.symlink("bin/sh", "busybox")?;
    archive.symlink("bin/mkfs.ext4", "mke2fs")?;
    archive.file("etc/mke2fs.conf", &read("/etc/mke2fs.conf")?)?;
    let stripped = path.with_extension("stripped");
    fs::create_dir_all(&stripped)?;
    let added = add_programs(&mut archive, programs, &stripped);
    fs::remove_dir_all(&stripped)?;
    added?;
    add_modules(&mut archive, kernel)?;
    archive.finish()?;
    Ok(())
}

/// Copies of our programs in `directory`; without its symbols one is a twentieth as large.
fn stripped(programs: &[&Path], directory: &Path) -> Result<Vec<PathBuf>> {
    let mut copies = Vec::new();
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        let copy = directory.join(name);
        output_of(Command::new("strip").arg("-o").arg(&copy).arg(program))?;
        copies.push(copy);
    }
    Ok(copies)
}

/// Programs go to /bin; libraries keep the place where the loader looks for them.
fn add_programs(
    archive: &mut Archive<BufWriter<File>>,
    ours: &[&Path],
    directory: &Path,
) -> Result<()> {
    let theirs = PROGRAMS.iter().map(PathBuf::from);
    let mut libraries = BTreeSet::new();
    for program in stripped(ours, directory)?.into_iter().chain(theirs) {
        let path = program.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or(&path);
        archive.file(&format!("bin/{name}"), &read(&program)?)?;
        libraries.extend(libraries_of(&path)?);
    }
    let mut known: BTreeSet<PathBuf> = DIRECTORIES.iter().map(PathBuf::from).collect();
    for library in libraries {
        let inside = Path::new(library.trim_start_matches('/'));
        let parents: Vec<&Path> = inside.ancestors().skip(1).collect();
        for parent in parents
            .into_iter()
            .rev()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            if known.insert(parent.to_path_buf()) {
                archive.directory(&parent.to_string_lossy())?;
            }
        }
        archive.file(&inside.to_string_lossy(), &read(&library)?)?;
    }
    Ok(())
}

/// The shared libraries that a program loads, its loader among them.
fn libraries_of(program: &str) -> Result<Vec<String>> {
    let listing = output_of(Command::new("ldd").arg(program))?;
    let words = listing.split_whitespace();
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect())
}

/// Modules go, unpacked, to /modules/NN-NAME.ko, numbered in the order to load them; those that
/// scenarios load to /modules/later and /modules/rdma.
fn add_modules(archive: &mut Archive<BufWriter<File>>, kernel: &Kernel) -> Result<()> {
    let table = fs::read_to_string(kernel.modules.join("modules.dep"))?;
    let built_in = fs::read_to_string(kernel.modules.join("modules.builtin"))?;
    let mut order: Vec<&str> = Vec::new();
    let at_boot = add_needed(kernel, &table, &built_in, &MODULES, &mut order)?;
    let later = add_needed(kernel, &table, &built_in, &LATER, &mut order)?;
    add_needed(kernel, &table, &built_in, &RDMA, &mut order)?;
    for (index, path) in order.iter().enumerate() {
        let place = match index {
            index if index < at_boot => "modules",
            index if index < later => "modules/later",
            _ => "modules/rdma",
        };
        add_module(archive, kernel, path, &format!("{place}/{index:02}"))?;
    }
    Ok(())
}

/// Adds `modules` to `order`, each after what it needs; gives how many are in it then.
fn add_needed<'a>(
    kernel: &Kernel,
    table: &'a str,
    built_in: &str,
    modules: &[&str],
    order: &mut Vec<&'a str>,
) -> Result<usize> {
    for module in modules {
        let row = table
            .lines()
            .find(|row| is_module(row.split(':').next().unwrap_or(""), module));
        let Some((path, needs)) = row.and_then(|row| row.split_once(':')) else {
            let built_in = built_in.lines().any(|path| is_module(path, module));
            anyhow::ensure!(built_in, "{} has no module {module}", kernel.release);
            continue;
        };
        // modules.dep names what a module needs in the reverse of the order to load.
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order.len())
}

fn add_module(
    archive: &mut Archive<BufWriter<File>>,
    kernel: &Kernel,
    path: &str,
    numbered: &str,
) -> Result<()> {
    let file = kernel.modules.join(path);
    let content = if path.ends_with(".xz") {
        decompress(&file)?
    } else {
        read(&file)?
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.trim_end_matches(".xz");
    archive.file(&format!("{numbered}-{name}"), &content)?;
    Ok(())
}

fn is_module(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.')
        .next()
        .is_some_and(|stem| stem.replace('-', "_") == name.replace('-', "_"))
}

fn decompress(file: &Path) -> Result<Vec<u8>> {
    let output = Command::new("xz")
        .args(["--decompress", "--stdout"])
        .arg(file)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "xz cannot unpack {}",
        file.display()
    );
    Ok(output.stdout)
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
