//! The host's plans of transposition on an emulated device: one launch for each phase, with the
//! integers of the plan.

use meshsolve::transpose::{Algorithm, Plan, panels, skinny};

use crate::emulator::Emulator;
use crate::memory::Array;

type Square = unsafe extern "C" fn(*mut u8, u64, u64);
type Blocks = unsafe extern "C" fn(*mut u8, u64, u64, u64);
type Segments = unsafe extern "C" fn(*mut u8, u64, u64, u64, u64, *mut u32);
type TurnPanel = unsafe extern "C" fn(*mut u8, *mut u8, u64, u64, u64, u64, u64, u64);
type HoldPanel = unsafe extern "C" fn(*mut u8, *mut u8, u64, u64, u64, u64, u64);
type Chunks = unsafe extern "C" fn(*mut u8, u64, u64, u64, u64, u64, *mut u32);
type Runs = unsafe extern "C" fn(*mut u8, *mut u8, u64, u64, u64, u64, u64, u64);
type Tail = unsafe extern "C" fn(*mut u8, *mut u8, u64, u64, u64, u64);

/// Blocks in a grid, and the order in which threads take turns.
#[derive(Clone, Copy)]
pub struct Device {
    pub emulator: &'static Emulator,
    pub blocks: u32,
    pub seed: u64,
}

/// Launches a kernel of this name and type for elements of `size` bytes.
macro_rules! launch {
    ($device:expr, $name:literal: $kernel:ty, $size:expr, $($argument:expr),*) => {{
        // SAFETY: the parameters of the source.
        let kernel: $kernel = unsafe { $device.emulator.kernel(&format!("{}_{}", $name, $size)) };
        // SAFETY: the array is the plan's, and scratch is what the plan asks for.
        let body = || unsafe { kernel($($argument),*) };
        $device.emulator.launch($device.blocks, $device.seed, body);
    }};
}

impl Device {
    pub fn transpose(&self, plan: &Plan, data: *mut u8) {
        let n = plan.rows() as u64;
        match plan.algorithm() {
            Algorithm::Trivial => {}
            Algorithm::Square => {
                launch!(self, "transpose_square": Square, plan.element_size(), data, n, n);
            }
            Algorithm::Blocks { side } => self.blocks(plan, side as u64, data),
            Algorithm::Panel { .. } => self.panels(plan, data),
            Algorithm::Skinny { .. } => self.skinny(plan, data),
            other => panic!("no kernels for {other:?}"),
        }
    }

    fn blocks(&self, plan: &Plan, side: u64, data: *mut u8) {
        let size = plan.element_size();
        let (down, across) = (plan.rows() as u64 / side, plan.cols() as u64 / side);
        launch!(self, "transpose_blocks": Blocks, size, data, down, across, side);
        if plan.phases() > 1 {
            let bytes = side * size as u64;
            let width = widest(data, bytes);
            let length = bytes / width;
            self.claiming(down * across * side, length, width, |bits| {
                launch!(self, "move_segments": Segments, width,
                    data, down, across, side, length, bits);
            });
        }
    }

    fn panels(&self, plan: &Plan, data: *mut u8) {
        let size = plan.element_size();
        let panels = plan.panels().expect("a plan by panels");
        let tall = panels.tall as u64;
        let [short, height, count, rest] =
            [panels.short, panels.height, panels.count, panels.rest].map(|x| x as u64);
        let mut scratch = Array::new(plan.shared_bytes(), size);
        let shared = scratch.pointer();
        for phase in 0..plan.phases() {
            match panels.stage(phase) {
                panels::Stage::Turn(p) => launch!(self, "turn_panel": TurnPanel, size,
                    data, shared, tall, short, height, count, rest, p as u64),
                panels::Stage::Hold => launch!(self, "hold_panel": HoldPanel, size,
                    data, shared, tall, short, height, count, rest),
                panels::Stage::Permute => {
                    self.claiming(count * short, height, size as u64, |bits| {
                        launch!(self, "move_chunks": Chunks, size,
                            data, tall, short, height, count, rest, bits);
                    });
                }
            }
        }
        scratch.check("panels");
    }

    fn skinny(&self, plan: &Plan, data: *mut u8) {
        let size = plan.element_size();
        let skinny = plan.skinny().expect("a plan for skinny arrays");
        let tall = skinny.tall as u64;
        let [short, height, count, rest, runs] =
            [skinny.short, skinny.height, skinny.count, skinny.rest, skinny.runs].map(|x| x as u64);
        let mut memory = Array::new(plan.shared_bytes(), size);
        let scratch = memory.pointer();
        for phase in 0..plan.phases() {
            match skinny.stage(phase) {
                skinny::Stage::Hold => launch!(self, "hold_runs": Runs, size,
                    data, scratch, tall, short, height, count, rest, runs),
                skinny::Stage::Turn => launch!(self, "turn_runs": Runs, size,
                    data, scratch, tall, short, height, count, rest, runs),
                skinny::Stage::Permute => {
                    self.claiming(count * short, height, size as u64, |bits| {
                        launch!(self, "move_structures": Chunks, size,
                            data, tall, short, height, count, rest, bits);
                    });
                    if skinny.tall {
                        launch!(self, "place_tail": Tail, size,
                            data, scratch, short, height, count, rest);
                    }
                }
            }
        }
        memory.check("skinny");
    }

    /// With a bit for every slice of every piece, as for move_pieces; pieces have `length` elements
    /// of `width` bytes.
    fn claiming(&self, pieces: u64, length: u64, width: u64, launch: impl Fn(*mut u32)) {
        let slices = length.div_ceil(if width == 16 { 128 } else { 256 });
        let mut bits = Array::zeros((pieces.div_ceil(32) * slices * 4) as usize, 16);
        launch(bits.pointer().cast());
        bits.check("claims");
    }
}

/// The widest access to pieces of `bytes` bytes from `data` on.
fn widest(data: *mut u8, bytes: u64) -> u64 {
    1 << (data.addr() as u64 | bytes | 16).trailing_zeros()
}
