//! The launches of C2R and R2C (`kernels/transpose_c2r.cu`).

use super::Argument::{self, Claims, Data, Integer, Scratch};
use super::Launch;
use crate::transpose::columns::Step;
use crate::transpose::maps::inverse;
use crate::transpose::plan::Decomposition;

/// The most bytes of a sub-row.
const WIDEST: usize = 256;

/// The most bytes of a row that is shuffled on chip.
const ON_CHIP: usize = 32 << 10;

/// Number of blocks for groups of columns, if there are as many.
const BLOCKS: usize = 1024;

/// Scratch holds 1/`SHARE` of the rows while columns or rows move.
const SHARE: usize = 64;

/// The division of the work on elements of `size` bytes.
pub(super) struct Parts<'a> {
    work: &'a Decomposition,
    size: usize,
    /// Columns of a group.
    width: usize,
    slabs: usize,
    /// Blocks that shuffle rows through scratch; none if rows fit on the chip.
    workers: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(work: &'a Decomposition, size: usize) -> Self {
        let (m, n) = (work.maps.m, work.maps.n);
        let mut width = WIDEST / size;
        // No column may rotate by all m rows.
        while width > m {
            width /= 2;
        }
        let slabs = (BLOCKS / n.div_ceil(width)).min(m / (SHARE * width)).max(1);
        let workers = if n * size > ON_CHIP { (m / SHARE).clamp(1, BLOCKS) } else { 0 };
        Parts { work, size, width, slabs, workers }
    }

    /// Whether the kernels' products of two residues fit in 64 bits.
    pub(super) fn possible(work: &Decomposition) -> bool {
        work.maps.a < 1 << 31 && work.maps.b < 1 << 31
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        let held = self.slabs * (self.width - 1);
        held.max(self.workers) * self.work.maps.n * self.size
    }

    /// A bit for every sub-row.
    pub(super) fn claim_bytes(&self) -> usize {
        let maps = &self.work.maps;
        maps.n.div_ceil(self.width) * maps.m.div_ceil(32) * 4
    }

    pub(super) fn launches(&self) -> Vec<Launch> {
        let Decomposition { maps, forward, .. } = self.work;
        let rows = self.launch(
            "shuffle_rows",
            &[Data, Scratch],
            &[maps.m, maps.n, maps.c, maps.a_inverse, *forward as usize, self.workers],
        );
        let first = if maps.c > 1 { self.columns(Step::Rotate) } else { Vec::new() };
        let last = self.columns(Step::Permute);
        let (first, last) = if *forward { (first, last) } else { (last, first) };
        first.into_iter().chain([rows]).chain(last).collect()
    }

    /// A column step. C2R sweeps before sub-rows move, R2C after.
    fn columns(&self, step: Step) -> Vec<Launch> {
        let Decomposition { maps, forward, .. } = self.work;
        let (m, n, width, up) = (maps.m, maps.n, self.width, *forward as usize);
        let permute = step == Step::Permute;
        let mut coarse = self.launch(
            "move_rows",
            &[Data],
            &[m, n, width, maps.c, inverse(maps.b, maps.a), permute as usize, up],
        );
        coarse.arguments.push(Claims);
        let per = if permute { 1 } else { maps.b };
        let integers = [m, n, width, self.slabs, up];
        let fine = [
            self.launch("hold_rows", &[Data, Scratch], &integers),
            self.launch("sweep_columns", &[Data, Scratch], &[&integers[..], &[per]].concat()),
        ];
        // Groups of columns that move by one amount have no fine rotation.
        let fine = fine.into_iter().filter(|_| per % width != 0);
        if *forward {
            fine.chain([coarse]).collect()
        } else {
            [coarse].into_iter().chain(fine).collect()
        }
    }

    fn launch(&self, name: &'static str, pointers: &[Argument], integers: &[usize]) -> Launch {
        let integers = integers.iter().map(|&x| Integer(x as u64));
        let arguments = pointers.iter().copied().chain(integers).collect();
        Launch { file: "transpose_c2r", name, width: self.size, arguments }
    }
}
