//! Plans on a CUDA device: the kernels of `kernels/transpose_*.cu` that a plan launches, in order,
//! and their integers. This needs no device.

mod decomposition;

use super::choose::sides;
use super::panels::Panels;
use super::plan::{Algorithm, Plan, Work, assert_possible};
use super::segments::Segments;
use super::skinny::Skinny;
use super::tables::MOST;
use super::{panels, skinny};
use decomposition::Parts;

/// The most bytes of a panel of a skinny array. The shared memory of a block of threads holds it.
const SKINNY_PANEL: usize = 32 << 10;

/// Elements along a side of the tiles of squares, of so many bytes each (`kernels/tiles.cuh`).
pub fn tile_side(size: usize) -> usize {
    256 / size
}

/// The most bytes of a structure for transposing a panel of structures in registers.
const IN_REGISTERS: usize = 128;

const THREADS: usize = 256;

macro_rules! files {
    ($($elements:literal)*) => { [$(concat!("transpose_registers_", $elements)),*] };
}

/// The file of structures of 2 elements, of 3, and so on.
const REGISTERS: [&str; MOST - 1] = files!(
    2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
);

/// The most panels, which are launches one after the other.
const MOST_PANELS: usize = 256;

/// An argument of a kernel, of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of the array.
    Data,
    /// The address of [`Plan::device_bytes`] bytes of scratch, the same for all launches.
    Scratch,
    /// The address of [`Plan::claim_bytes`] bytes of scratch, set to zero before the launch.
    Claims,
    Integer(u64),
}

/// A kernel and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The file in `kernels/`, without `.cu`, and the number of elements for which it is compiled,
    /// if any.
    pub file: &'static str,
    /// The entry point without the bytes of its elements.
    pub name: &'static str,
    /// The bytes of its elements.
    pub width: usize,
    pub arguments: Vec<Argument>,
}

impl Launch {
    pub fn entry(&self) -> String {
        format!("{}_{}", self.name, self.width)
    }
}

/// Contiguous pieces that move to their places: their number, their length, and the remainder of a
/// line. Lengths are in elements of `width` bytes.
#[derive(Clone, Copy)]
struct Pieces {
    count: usize,
    length: usize,
    rest: usize,
    width: usize,
}

impl Pieces {
    /// Bytes for a bit for every slice of every piece, in the form of `slice.cuh` and `pieces.cuh`.
    fn claim_bytes(self) -> usize {
        let slice = if self.width == 16 { 128 } else { 256 };
        self.count.div_ceil(32) * self.length.div_ceil(slice) * 4
    }
}

/// The most structures of `bytes` each that a block transposes in its registers. A thread has a
/// whole number of them.
fn most_in_registers(bytes: usize) -> Option<usize> {
    (bytes <= IN_REGISTERS).then(|| SKINNY_PANEL / (THREADS * bytes) * THREADS)
}

/// The divisor for a panel's height, which is at most `height`. It is the number of elements in 16
/// bytes, if that divides the `length` of lines and leaves a choice; else 1.
fn aligned(height: usize, length: usize, size: usize) -> usize {
    let elements = 16 / size;
    if length.is_multiple_of(elements) && height >= 2 * elements { elements } else { 1 }
}

impl Plan {
    /// A plan for `scratch_bytes` of [`Plan::device_bytes`] and [`Plan::claim_bytes`] together, if
    /// there is one. 9/8 of the array's bytes and 64 more are always enough.
    ///
    /// Panics as [`Plan::new`] does.
    pub fn on_device(
        rows: usize,
        cols: usize,
        element_size: usize,
        scratch_bytes: usize,
    ) -> Option<Self> {
        assert_possible(rows, cols, element_size);
        let forced = |algorithm| Plan::forced(algorithm, rows, cols, element_size);
        let fits =
            |plan: &Plan| plan.device_bytes() + plan.claim_bytes(element_size) <= scratch_bytes;
        let (least, most) = (rows.min(cols), rows.max(cols));
        if least <= 1 {
            return Some(forced(Algorithm::Trivial));
        }
        if rows == cols {
            return Some(forced(Algorithm::Square));
        }
        let narrow = (least <= MOST).then(|| {
            // Of the heights that fill a panel, takes the one that leaves the shortest rest.
            let bytes = least * element_size;
            let longest = most_in_registers(bytes).unwrap_or(SKINNY_PANEL / bytes).min(most);
            // Chunks move faster where they are multiples of 16 bytes.
            let unit = aligned(longest, most, element_size);
            let heights = (longest.div_ceil(2)..=longest).rev().filter(|height| height % unit == 0);
            let height = heights.min_by_key(|height| most % height).expect("at least one");
            forced(Algorithm::Skinny { height })
        });
        let sides = sides(rows, cols, element_size).into_iter();
        let panels = (1..=MOST_PANELS.min(most)).map(|count| {
            let height = most / count;
            Algorithm::Panel { height: height - height % aligned(height, most, element_size) }
        });
        narrow
            .into_iter()
            .chain(sides.map(|side| forced(Algorithm::Blocks { side })))
            .chain(panels.map(forced))
            // Rows of the view with fewer columns fit on the chip sooner.
            .chain([forced(if rows > cols { Algorithm::C2r } else { Algorithm::R2c })])
            .find(|plan| plan.has_kernels() && fits(plan))
    }

    fn has_kernels(&self) -> bool {
        match self.work() {
            Work::Decomposition(work) => Parts::possible(work),
            _ => true,
        }
    }

    /// Bytes of scratch for [`Argument::Scratch`].
    pub fn device_bytes(&self) -> usize {
        match self.work() {
            Work::Decomposition(work) => Parts::new(work, self.element_size()).scratch_bytes(),
            Work::Skinny(skinny) => {
                skinny.on_device(self.element_size()).shared_bytes(self.element_size())
            }
            Work::Panels(panels) => panels.held_bytes(self.element_size()),
            _ => 0,
        }
    }

    /// Bytes of scratch for [`Argument::Claims`], for an array with an address that `alignment`
    /// divides.
    pub fn claim_bytes(&self, alignment: usize) -> usize {
        match self.work() {
            Work::Decomposition(work) => Parts::new(work, self.element_size()).claim_bytes(),
            _ => self.pieces(alignment).map_or(0, Pieces::claim_bytes),
        }
    }

    /// The launches on the device, in order, for an array with an address that `alignment` divides.
    ///
    /// Panics when a panel of a skinny array is too large for the kernels. It also panics for a
    /// side of 2^31 or more with C2R and R2C.
    pub fn launches(&self, alignment: usize) -> Vec<Launch> {
        let size = self.element_size();
        let launch = |file, name, width, pointers: &[Argument], integers: &[usize]| {
            let integers = integers.iter().map(|&x| Argument::Integer(x as u64));
            let arguments = pointers.iter().copied().chain(integers).collect();
            Launch { file, name, width, arguments }
        };
        let claiming = |file, name, integers: &dyn Fn(Pieces) -> Vec<usize>| {
            let pieces = self.pieces(alignment).expect("pieces move");
            let integers = integers(pieces);
            let mut moves = launch(file, name, pieces.width, &[Argument::Data], &integers);
            moves.arguments.push(Argument::Claims);
            moves
        };
        match self.work() {
            Work::Nothing => Vec::new(),
            Work::Blocks(blocks, _) if self.phases() == 1 => {
                let integers = [blocks.side, blocks.side];
                let (file, name) = ("transpose_square", "transpose_square");
                vec![launch(file, name, size, &[Argument::Data], &integers)]
            }
            Work::Blocks(_, segments) => {
                let Segments { down, across, side, .. } = *segments;
                let file = "transpose_blocks";
                let tiles = launch(file, file, size, &[Argument::Data], &[down, across, side]);
                let integers = |pieces: Pieces| vec![down, across, side, pieces.length];
                vec![tiles, claiming(file, "move_segments", &integers)]
            }
            Work::Panels(panels) => {
                let Panels { tall, short, height, count, rest, .. } = *panels;
                let (file, memory) = ("transpose_panels", [Argument::Data, Argument::Scratch]);
                let integers = [tall as usize, short, height, count, rest];
                let step = |phase| match panels.stage(phase) {
                    panels::Stage::Turn(p) => {
                        let integers = [&integers[..], &[p]].concat();
                        Some(launch(file, "turn_panel", size, &memory, &integers))
                    }
                    panels::Stage::Hold => {
                        Some(launch(file, "hold_panel", size, &memory, &integers))
                    }
                    // The kernel claims chunks when it reaches them.
                    panels::Stage::Mark => None,
                    panels::Stage::Permute => Some(claiming(file, "move_chunks", &|pieces| {
                        vec![tall as usize, short, pieces.length, count, pieces.rest]
                    })),
                };
                (0..self.phases()).filter_map(step).collect()
            }
            Work::Skinny(skinny) => {
                let skinny = skinny.on_device(size);
                let Skinny { tall, short, height, count, rest, runs, .. } = skinny;
                assert!(
                    short * height * size <= SKINNY_PANEL,
                    "{self}: panels too large for a device"
                );
                let (file, memory) = ("transpose_skinny", [Argument::Data, Argument::Scratch]);
                let integers = [tall as usize, short, height, count, rest, runs];
                let turn = |file, name| launch(file, name, size, &memory, &integers);
                let step = |phase| match skinny.stage(phase) {
                    skinny::Stage::Hold => vec![turn(file, "hold_runs")],
                    skinny::Stage::Turn
                        if most_in_registers(short * size).is_some_and(|most| height <= most) =>
                    {
                        let mut launches = vec![turn(REGISTERS[short - 2], "turn_registers")];
                        if runs > 1 && rest > 0 {
                            launches.push(turn(file, "turn_held"));
                        }
                        launches
                    }
                    skinny::Stage::Turn => vec![turn(file, "turn_panels")],
                    skinny::Stage::Permute => vec![claiming(file, "move_structures", &|pieces| {
                        vec![tall as usize, short, pieces.length, count, pieces.rest]
                    })],
                };
                let mut launches: Vec<_> = (0..self.phases()).flat_map(step).collect();
                if tall && rest > 0 {
                    launches.push(launch(file, "place_tail", size, &memory, &integers[1..5]));
                }
                launches
            }
            Work::Decomposition(work) => {
                assert!(self.has_kernels(), "{self}: too long for a device");
                Parts::new(work, size).launches()
            }
        }
    }

    fn pieces(&self, alignment: usize) -> Option<Pieces> {
        let size = self.element_size();
        // Uses the widest access to which the array and these numbers of elements are aligned.
        let pieces = |count, length: usize, rest: usize| {
            let (length, rest) = (length * size, rest * size);
            let width = 1 << (alignment | length | rest | 16).trailing_zeros();
            Pieces { count, length: length / width, rest: rest / width, width }
        };
        match self.work() {
            Work::Blocks(_, segments) if self.phases() > 1 => {
                Some(pieces(segments.count(), segments.side, 0))
            }
            Work::Panels(panels) => {
                Some(pieces(panels.count * panels.short, panels.height, panels.rest))
            }
            Work::Skinny(skinny) if self.phases() > 1 => {
                Some(pieces(skinny.count * skinny.short, skinny.height, skinny.rest))
            }
            _ => None,
        }
    }
}
