//! The CUDA devices of this process. The driver, NVRTC and the cache are found at first use.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use super::cache::Cache;
use super::device::Devices;
use super::driver::Driver;
use super::kernels;
use super::nvrtc::{Nvrtc, Program};
use super::vendor::Libraries;
use super::vendor::nccl::Nccl;
use crate::error::Result;
use crate::settings::{self, PanelTransport};

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders where pip has installed CUDA's libraries, set before the first use.
pub fn set_folders(folders: Vec<PathBuf>) {
    *FOLDERS.lock().unwrap_or_else(|e| e.into_inner()) = folders;
}

fn folders() -> Vec<PathBuf> {
    FOLDERS.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

pub fn devices() -> Result<&'static Devices> {
    static DEVICES: OnceLock<Result<Devices>> = OnceLock::new();
    let vendor = |driver: &Driver| Libraries::find(&folders(), driver);
    let find = || {
        let devices = Devices::new(Driver::find()?, Box::new(compile), Box::new(vendor))?;
        Ok(match settings::panels() {
            PanelTransport::Copies => devices,
            PanelTransport::Nccl => devices.with_nccl(Box::new(|| Nccl::find(&folders()))),
        })
    };
    DEVICES.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn compile(program: &Program, arch: &str) -> Result<Vec<u8>> {
    static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
    let find = || Nvrtc::find(&folders(), Some(&Driver::find()?));
    let nvrtc = NVRTC.get_or_init(find).as_ref().map_err(Clone::clone)?;
    Ok(kernels::compile(program, arch, nvrtc, Cache::of_process())?.0.cubin)
}
