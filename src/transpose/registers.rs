//! Transposes structures to vectors and back on chip: [h, s] <-> [s, h] for s = 2..=32, out of
//! place.
//!
//! As many structures of s elements as a register has lanes fill s registers, an s x lanes matrix.
//! C2R transposes it within the registers when lines become rows of structures, R2C when rows
//! become lines (section 6.2 of the paper). Columns are rotated lane by lane with barrel rotations
//! (6.2.2). Where bit k of its amount is set, a lane takes the register 2^k further on. Rows are
//! shuffled within their register. The permutation of the rows only selects the register for each
//! load or store (6.2.3). Amounts and orders are data, so one kernel for each s serves all sizes of
//! elements.

#[cfg(target_arch = "x86_64")]
use super::kernels;
use super::memory::Element;
#[cfg(target_arch = "x86_64")]
use super::tables::Tables;
use super::tables::Turn;

impl Turn<'_> {
    /// Moves structures from `start` on, element by element.
    ///
    /// # Safety
    /// Rows and lines are memory of the required sizes. They do not overlap, and no other thread
    /// uses them.
    pub unsafe fn plain<const S: usize>(&self, start: usize) {
        let rows = self.rows.cast::<Element<S>>();
        for t in start..self.height {
            for (c, line) in self.lines.iter().enumerate() {
                // SAFETY: the caller promises rows and lines.
                unsafe {
                    let (x, y) =
                        (rows.add(t * self.lines.len() + c), line.cast::<Element<S>>().add(t));
                    if self.split { *y = *x } else { *x = *y }
                }
            }
        }
    }

    /// Uses the widest registers of the machine.
    ///
    /// # Safety
    /// As for [`Turn::plain`], with 2 to 32 lines.
    pub unsafe fn run<const S: usize>(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller promises rows and lines; the CPU has these sets.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                return self.with::<S>(64, kernels::avx512);
            }
            if is_x86_feature_detected!("avx2") {
                return self.with::<S>(32, kernels::avx2);
            }
        }
        // SAFETY: the caller promises rows and lines.
        unsafe { self.plain::<S>(0) };
    }

    /// Uses registers of `bytes`, and moves the remainder element by element.
    ///
    /// # Safety
    /// As for [`Turn::run`]; the machine has the instruction set of `kernel`.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn with<const S: usize>(&self, bytes: usize, kernel: unsafe fn(&Turn, &Tables)) {
        let tables = Tables::new(self.lines.len(), S, bytes, self.split);
        // SAFETY: the caller promises rows, lines and instruction set.
        unsafe {
            kernel(self, &tables);
            self.plain::<S>(self.height - self.height % tables.lanes);
        }
    }
}
