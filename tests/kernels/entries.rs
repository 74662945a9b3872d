//! The entry points of `kernels/*.cu` and their parameters, read from the sources. The emulated
//! driver needs them; the real one reads them from cubins.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The table that `driver.cc` includes.
pub fn table(kernels: &[PathBuf]) -> String {
    let mut table = String::new();
    for (file, text) in kernels.iter().flat_map(|folder| sources(folder)) {
        for size in [4, 8, 16] {
            for (name, parameters) in entries(&text) {
                let sizes: String = parameters.iter().map(|p| bytes(p, size)).collect();
                // An entry without an element size in its name appears once.
                let name = name.replace("##S", &size.to_string());
                writeln!(table, "ENTRY({file}, {name}, \"{sizes}\")").expect("memory");
            }
        }
    }
    let mut lines: Vec<_> = table.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n") + "\n"
}

fn sources(kernels: &Path) -> Vec<(String, String)> {
    let listed = fs::read_dir(kernels).expect("the folder of the kernels");
    let paths = listed.map(|entry| entry.expect("a file").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|kind| kind == "cu"));
    let source = |path: std::path::PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        (name, fs::read_to_string(path).expect("a source"))
    };
    paths.map(source).collect()
}

/// Names and parameters of the functions that begin with the word KERNEL.
fn entries(text: &str) -> Vec<(String, Vec<String>)> {
    let text = text.replace('\\', " ");
    let begin = text.split("KERNEL ").skip(1);
    let entry = |part: &str| {
        let (name, rest) = part.split_once('(').expect("a list of parameters");
        let (parameters, _) = rest.split_once(')').expect("its end");
        let list = parameters.split(',').map(|p| p.trim().to_owned()).collect();
        (name.trim().to_owned(), list)
    };
    begin.map(entry).collect()
}

/// The digit of a parameter: its bytes if it is passed like an integer, else 9.
fn bytes(parameter: &str, size: usize) -> char {
    match parameter {
        p if p.contains('*') || p.starts_with("Size ") => '8',
        p if p.starts_with("int ") || p.starts_with("unsigned ") => '4',
        p if p.starts_with("Element<S> ") && size <= 8 => char::from(b'0' + size as u8),
        _ => '9',
    }
}
