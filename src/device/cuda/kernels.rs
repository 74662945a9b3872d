//! A kernel for an architecture: from the cache, or compiled and stored there.

use super::cache::Cache;
use super::nvrtc::{Compiled, Nvrtc, Program};
use crate::error::Result;

/// The cache's part in a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    Found,
    Stored,
    /// There is no cache, or it cannot be written to, and why.
    Not(String),
}

/// Compiles, or takes from the cache the result for the same text and the same NVRTC.
pub fn compile(
    program: &Program,
    arch: &str,
    nvrtc: &Nvrtc,
    cache: std::result::Result<&Cache, &str>,
) -> Result<(Compiled, Cached)> {
    let cache = match cache {
        Ok(cache) => cache,
        Err(why) => return Ok((nvrtc.compile(program, arch)?, Cached::Not(why.into()))),
    };
    let key = key(program, arch, &nvrtc.fingerprint());
    if let Some(compiled) = cache.load(&key) {
        return Ok((compiled, Cached::Found));
    }
    let compiled = nvrtc.compile(program, arch)?;
    let cached = match cache.store(&key, &compiled) {
        Ok(()) => Cached::Stored,
        Err(why) => Cached::Not(why),
    };
    Ok((compiled, cached))
}

/// All inputs of the result, each part with its length.
pub fn key(program: &Program, arch: &str, compiler: &str) -> Vec<u8> {
    let mut key = Vec::new();
    let mut add = |kind: &str, text: &str| {
        key.extend(format!("{kind} {}\n", text.len()).bytes().chain(text.bytes()));
    };
    add("compiler", compiler);
    add("arch", arch);
    add("name", program.name);
    program.options.iter().for_each(|option| add("option", option));
    for (name, text) in program.headers {
        add("header", name);
        add("text", text);
    }
    add("source", program.source);
    key
}
