//! The cache of compiled kernels: the owner of its folder, several processes at once, incomplete
//! entries.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::alone;
use meshsolve::device::cuda::cache::{Cache, Census, choose};
use meshsolve::device::cuda::kernels::key;
use meshsolve::device::cuda::nvrtc::{Compiled, Program};

/// A separate folder for each test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("meshsolve-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn cache(&self) -> Cache {
        Cache::open(&self.0.join("cache")).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn compiled(i: u64) -> Compiled {
    let cubin = (0..1000 + 4000 * i).map(|byte| (byte * (i + 3)) as u8).collect();
    Compiled { cubin, log: format!("log of {i}") }
}

fn key_of(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn what_was_stored_is_found_by_its_key_only() {
    alone(|| {
        let scratch = Scratch::new("found");
        let cache = scratch.cache();
        assert_eq!(cache.load(&key_of(1)), None);
        cache.store(&key_of(1), &compiled(1)).unwrap();
        cache.store(&key_of(2), &compiled(2)).unwrap();
        cache.store(&key_of(2), &compiled(3)).unwrap();
        for cache in [&cache, &scratch.cache()] {
            assert_eq!(cache.load(&key_of(1)), Some(compiled(1)));
            assert_eq!(cache.load(&key_of(2)), Some(compiled(3)), "the last one stored");
            assert_eq!(cache.load(&key_of(3)), None);
        }
        let bytes = files(cache.path()).iter().map(|f| f.metadata().unwrap().len()).sum();
        assert_eq!(cache.census(), Census { entries: 2, bytes, damaged: 0 });
        assert!(files(cache.path()).iter().all(|file| mode(file) == 0o600));
    });
}

#[test]
fn an_entry_under_a_name_that_is_not_its_own_is_not_taken() {
    alone(|| {
        let scratch = Scratch::new("name");
        let cache = scratch.cache();
        cache.store(&key_of(1), &compiled(1)).unwrap();
        let [first] = &files(cache.path())[..] else { panic!("one file") };
        cache.store(&key_of(2), &compiled(2)).unwrap();
        let second = files(cache.path()).into_iter().find(|file| file != first).unwrap();
        // As if the names of both keys were equal.
        fs::rename(&second, first).unwrap();
        assert_eq!(cache.load(&key_of(1)), None);
    });
}

#[test]
fn the_key_tells_all_parts_apart() {
    alone(|| {
        let program =
            Program { name: "k.cu", source: "s", headers: &[("h", "t")], options: &["-o"] };
        let programs = [
            program,
            Program { name: "l.cu", ..program },
            Program { source: "S", ..program },
            Program { headers: &[("h", "T")], ..program },
            Program { headers: &[("H", "t")], ..program },
            Program { headers: &[], ..program },
            Program { headers: &[("h", "t"), ("h", "t")], ..program },
            Program { options: &["-O"], ..program },
            Program { options: &["-", "o"], ..program },
        ];
        let mut keys: Vec<_> = programs.iter().map(|p| key(p, "sm_80", "NVRTC 12.8")).collect();
        keys.push(key(&program, "sm_90", "NVRTC 12.8"));
        keys.push(key(&program, "sm_80", "NVRTC 12.9"));
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(key), "{}", String::from_utf8_lossy(key));
        }
        assert_eq!(keys[0], key(&program, "sm_80", "NVRTC 12.8"));
    });
}

#[test]
fn damaged_entries_are_absent_and_can_be_stored_anew() {
    alone(|| {
        let scratch = Scratch::new("damaged");
        let cache = scratch.cache();
        let store = || cache.store(&key_of(1), &compiled(1)).unwrap();
        store();
        let [file] = &files(cache.path())[..] else { panic!("one file") };
        let whole = fs::read(file).unwrap();
        let flipped: Vec<u8> = whole
            .iter()
            .enumerate()
            .map(|(i, byte)| if i == 900 { !byte } else { *byte })
            .collect();
        let damages: [&[u8]; 4] = [b"", &whole[..whole.len() / 2], &flipped, b"something else"];
        for damage in damages {
            fs::write(file, damage).unwrap();
            assert_eq!(cache.load(&key_of(1)), None);
            assert_eq!(cache.census().damaged, 1);
            store();
            assert_eq!(cache.load(&key_of(1)), Some(compiled(1)));
            assert_eq!(cache.census().damaged, 0);
        }
        // A folder in its place cannot be replaced; nothing else changes.
        fs::remove_file(file).unwrap();
        fs::create_dir(file).unwrap();
        assert_eq!(cache.load(&key_of(1)), None);
        let why = cache.store(&key_of(1), &compiled(1)).unwrap_err();
        assert!(why.contains("an entry cannot be written: Is a directory"), "{why}");
        assert_eq!(files(cache.path()), std::slice::from_ref(file), "nothing left behind");
    });
}

#[test]
fn folders_are_made_for_their_owner_only() {
    alone(|| {
        let scratch = Scratch::new("made");
        let path = scratch.0.join("a/b/c");
        let cache = Cache::open(&path).unwrap();
        assert_eq!(cache.path(), path);
        for made in ["a", "a/b", "a/b/c"] {
            assert_eq!(mode(&scratch.0.join(made)), 0o700, "{made}");
        }
        let link = scratch.0.join("link");
        symlink(&path, &link).unwrap();
        let linked = Cache::open(&link).unwrap();
        linked.store(&key_of(1), &compiled(1)).unwrap();
        assert_eq!(cache.load(&key_of(1)), Some(compiled(1)));
    });
}

#[test]
fn folders_that_others_may_enter_are_refused() {
    alone(|| {
        let scratch = Scratch::new("mode");
        let path = scratch.0.join("cache");
        fs::create_dir(&path).unwrap();
        for mode in [0o755, 0o710, 0o702, 0o770] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let expected = format!(
                "{0}: expected a folder that only its owner may enter (mode 700), got mode {mode:o}; \
             chmod 700 {0}, or set MESHSOLVE_CACHE_DIR",
                path.display()
            );
            assert_eq!(Cache::open(&path).unwrap_err(), expected);
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Cache::open(&path).unwrap();
    });
}

#[test]
fn folders_of_others_are_refused() {
    alone(|| {
        let scratch = Scratch::new("owner");
        let (path, owner) = if user() == 0 {
            chown(&scratch.0, Some(12345), None).unwrap();
            fs::set_permissions(&scratch.0, Permissions::from_mode(0o700)).unwrap();
            (scratch.0.clone(), 12345)
        } else {
            ("/usr".into(), 0)
        };
        let expected = format!(
            "{}: expected a folder of user {}, got one of user {owner}; set MESHSOLVE_CACHE_DIR to a folder \
         of your own",
            path.display(),
            user()
        );
        assert_eq!(Cache::open(&path).unwrap_err(), expected);
    });
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    alone(|| {
        let scratch = Scratch::new("unusable");
        let file = scratch.0.join("file");
        fs::write(&file, "").unwrap();
        for (path, what) in
            [(&file, "opened: Not a directory"), (&file.join("x"), "opened: Not a directory")]
        {
            let why = Cache::open(path).unwrap_err();
            assert!(why.starts_with(&format!("{}: cannot be {what}", path.display())), "{why}");
            assert!(why.ends_with("; set MESHSOLVE_CACHE_DIR"), "{why}");
        }
        let why = Cache::open(Path::new("/proc/meshsolve")).unwrap_err();
        assert!(why.starts_with("/proc/meshsolve: cannot be made: "), "{why}");
    });
}

#[test]
fn a_folder_that_is_read_only_or_gone_costs_nothing_but_the_entry() {
    alone(|| {
        let scratch = Scratch::new("read-only");
        let cache = scratch.cache();
        cache.store(&key_of(1), &compiled(1)).unwrap();
        fs::set_permissions(cache.path(), Permissions::from_mode(0o500)).unwrap();
        // Nothing is read-only to root.
        assert_eq!(cache.store(&key_of(2), &compiled(2)).is_ok(), user() == 0);
        assert_eq!(Cache::open(cache.path()).unwrap().load(&key_of(1)), Some(compiled(1)));
        fs::set_permissions(cache.path(), Permissions::from_mode(0o700)).unwrap();

        fs::remove_dir_all(cache.path()).unwrap();
        assert_eq!(cache.load(&key_of(1)), None);
        let why = cache.store(&key_of(1), &compiled(1)).unwrap_err();
        let expected =
            format!("{}: an entry cannot be written: No such file", cache.path().display());
        assert!(why.starts_with(&expected), "{why}");
        assert_eq!(cache.census(), Census::default());
    });
}

#[test]
fn what_killed_processes_left_is_removed_after_an_hour() {
    alone(|| {
        let scratch = Scratch::new("abandoned");
        let folder = scratch.cache().path().to_owned();
        let hour = Duration::from_secs(3600);
        for (name, age) in [("old.new", 2 * hour), ("young.new", hour / 2), ("old.txt", 2 * hour)] {
            let file = File::create(folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        scratch.cache();
        let left: Vec<_> =
            files(&folder).iter().map(|f| f.file_name().unwrap().to_owned()).collect();
        assert_eq!(left, ["old.txt", "young.new"]);
    });
}

#[test]
fn the_environment_chooses_the_folder() {
    alone(|| {
        let chosen = |variables: &[(&str, &str)]| {
            let map: HashMap<_, _> =
                variables.iter().map(|(k, v)| (*k, OsString::from(v))).collect();
            choose(|name| map.get(name).cloned()).map(|path| path.display().to_string())
        };
        let all =
            [("MESHSOLVE_CACHE_DIR", "/own"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/me")];
        assert_eq!(chosen(&all), Ok("/own".into()));
        assert_eq!(chosen(&all[1..]), Ok("/xdg/meshsolve/kernels".into()));
        assert_eq!(chosen(&all[2..]), Ok("/home/me/.cache/meshsolve/kernels".into()));
        let relative = [("XDG_CACHE_HOME", "xdg"), ("HOME", "/home/me")];
        assert_eq!(chosen(&relative), Ok("/home/me/.cache/meshsolve/kernels".into()));
        let none = "no absolute path in MESHSOLVE_CACHE_DIR, XDG_CACHE_HOME or HOME; set MESHSOLVE_CACHE_DIR";
        assert_eq!(chosen(&[]), Err(none.into()));
        assert_eq!(chosen(&[("HOME", "")]), Err(none.into()));
        let own = |path| chosen(&[("MESHSOLVE_CACHE_DIR", path), ("HOME", "/home/me")]);
        assert_eq!(own(""), Err("MESHSOLVE_CACHE_DIR is empty".into()));
        let expected = "MESHSOLVE_CACHE_DIR: expected an absolute path, got \"own\"";
        assert_eq!(own("own"), Err(expected.into()));
    });
}

const SHARED: &str = "MESHSOLVE_TEST_SHARED_CACHE";
const KEYS: u64 = 4;

/// Stores and loads the same few entries over and over. Every loaded entry must be whole and right.
fn work(cache: &Cache, turns: u64) {
    for turn in 0..turns {
        let i = (turn * 7 + u64::from(std::process::id())) % KEYS;
        if let Some(found) = cache.load(&key_of(i)) {
            assert!(found == compiled(i), "entry {i} is not what was stored");
        }
        if turn % 3 == 0 {
            cache.store(&key_of(i), &compiled(i)).unwrap();
        }
    }
}

#[test]
fn processes_side_by_side_find_whole_entries() {
    alone(|| {
        let scratch = Scratch::new("processes");
        let mut children: Vec<_> = (0..6)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--ignored", "--exact", "kernel_cache::one_of_several_processes"])
                    .env(SHARED, scratch.0.join("cache"))
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // Meanwhile, damage entries in place.
        let cache = scratch.cache();
        while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            for file in files(cache.path()) {
                if let Ok(file) = File::options().write(true).open(file) {
                    let _ = file.set_len(700);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for child in children {
            let ended = child.wait_with_output().unwrap();
            let stated = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && stated.contains("1 passed"), "{stated}");
        }
        work(&cache, 3 * KEYS);
        let census = cache.census();
        assert_eq!((census.entries, census.damaged), (KEYS as usize, 0));
        assert_eq!(files(cache.path()).len(), KEYS as usize, "nothing left behind");
    });
}

#[test]
#[ignore = "started by processes_side_by_side_find_whole_entries"]
fn one_of_several_processes() {
    let folder = std::env::var_os(SHARED).expect("the folder that the processes share");
    work(&Cache::open(Path::new(&folder)).unwrap(), 300);
}

#[test]
fn threads_side_by_side_find_whole_entries() {
    alone(|| {
        let scratch = Scratch::new("threads");
        let cache = scratch.cache();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| work(&cache, 300));
            }
            for _ in 0..100 {
                assert_eq!(cache.census().damaged, 0, "a reader saw part of an entry");
            }
        });
        assert_eq!(files(cache.path()).len(), KEYS as usize);
    });
}
