//! A capture as a directory.

use super::pages::PageFile;
use super::{Capture, CaptureError, Damage, ImageFile, Outcome, Recorded, Result, Topology, MANIFEST, VERSION};
use crate::labels::{Extent, Labels};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FORMAT: &str = "et-capture";

/// What every version has.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    version: u32,
    writer: String,
    launch: Recorded,
    topology: Topology,
    images: Vec<Image>,
    labels: Labels,
    volatile: Vec<Extent>,
    outcome: Outcome,
    before: PageFile,
    after: PageFile,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    file: String,
    #[serde(with = "crate::hex")]
    address: u64,
}

impl Capture {
    /// Writes it to the directory `path`, which must not exist. It is complete when it appears: until then it has
    /// `.part` at the end of its name.
    pub fn write(&self, path: &Path) -> Result<()> {
        if path.exists() {
            return Err(CaptureError::Exists(path.to_owned()));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let written = self.write_files(&part).and_then(|()| fs::rename(&part, path).map_err(io_error("make", path)));
        if written.is_err() {
            // What is left of it is of no use; the first error is the one to report.
            let _ = fs::remove_dir_all(&part);
        }
        written
    }

    fn write_files(&self, path: &Path) -> Result<()> {
        if path.exists() {
            fs::remove_dir_all(path).map_err(io_error("remove", path))?;
        }
        fs::create_dir_all(path).map_err(io_error("make the directory", path))?;
        let put = |name: &str, data: &[u8]| {
            let file = path.join(name);
            fs::write(&file, data).map_err(io_error("write", &file))
        };
        let (bytes, before) = self.before.pack("before.pages");
        put(&before.file, &bytes)?;
        let (bytes, after) = self.after.pack("after.pages");
        put(&after.file, &bytes)?;
        let mut images = Vec::new();
        for image in &self.images {
            put(&image.file, &image.data)?;
            images.push(Image { file: image.file.clone(), address: image.address });
        }
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            writer: concat!("et-emulator ", env!("CARGO_PKG_VERSION")).to_owned(),
            launch: self.launch.clone(),
            topology: self.topology,
            images,
            labels: self.labels.clone(),
            volatile: self.volatile.clone(),
            outcome: self.outcome.clone(),
            before,
            after,
        };
        let text = serde_json::to_string_pretty(&manifest).expect("strings and numbers are JSON");
        put(MANIFEST, text.as_bytes())
    }

    /// Reads the capture in the directory `path`.
    pub fn read(path: &Path) -> Result<Capture> {
        let file = path.join(MANIFEST);
        let text = fs::read(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CaptureError::Missing(path.to_owned()),
            _ => io_error("read", &file)(error),
        })?;
        let damaged = |damage| CaptureError::Damaged { path: file.clone(), damage };
        let json = |error: serde_json::Error| damaged(Damage::Json(error.to_string()));
        let header: Header = serde_json::from_slice(&text).map_err(json)?;
        if header.format != FORMAT {
            return Err(damaged(Damage::Format));
        }
        if header.version > VERSION {
            return Err(CaptureError::Newer { path: path.to_owned(), version: header.version });
        }
        let manifest: Manifest = serde_json::from_slice(&text).map_err(json)?;
        let get = |name: &str| {
            // Only its own files: a capture comes from somebody else.
            if Path::new(name).file_name().is_none_or(|plain| plain != name) {
                return Err(damaged(Damage::Name(name.to_owned())));
            }
            let file = path.join(name);
            fs::read(&file).map_err(io_error("read", &file))
        };
        let pages = |index: &PageFile| {
            let packed = get(&index.file)?;
            let damaged = |damage| CaptureError::Damaged { path: path.join(&index.file), damage };
            index.unpack(&packed).map_err(damaged)
        };
        let (before, after) = (pages(&manifest.before)?, pages(&manifest.after)?);
        if let Some((addr, _)) = after.iter().find(|&(addr, _)| before.get(addr).is_none()) {
            return Err(damaged(Damage::Unknown(addr)));
        }
        let mut images = Vec::new();
        for image in manifest.images {
            images.push(ImageFile { data: get(&image.file)?, file: image.file, address: image.address });
        }
        Ok(Capture {
            launch: manifest.launch,
            topology: manifest.topology,
            images,
            labels: manifest.labels,
            volatile: manifest.volatile,
            outcome: manifest.outcome,
            before,
            after,
        })
    }
}

fn io_error<'a>(verb: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> CaptureError + 'a {
    move |error| CaptureError::Io { verb, path: path.to_owned(), error }
}
