//! A rank's need of device memory in addition to operands and results, as one piece.

use super::handle::Address;

/// Parts begin at multiples of this.
const ALIGNMENT: usize = 256;

/// cuBLAS recommends 32 MiB on newer devices. Smaller problems need less.
const WORKSPACE: [usize; 2] = [4 << 20, 32 << 20];
/// Bytes of a shard from which on 32 MiB are little.
const LARGE: usize = 8 << 30;

/// Sizes of the parts, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Scratch that the algorithms use: tiles, and what the phases use in turn.
    pub own: usize,
    pub shared: usize,
    pub sums: usize,
    pub pivots: usize,
    /// Conjugates and tables, on the caller's stream and on the other one.
    pub arenas: [usize; 2],
    /// A copy of what another rank has.
    pub fetched: usize,
    /// A panel of another rank, twice.
    pub panel: usize,
    /// An int32 for each factorisation of a tile or panel.
    pub infos: usize,
    /// The library's pivots of a panel, int64.
    pub panel_pivots: usize,
    /// The new places of rows after interchanges, for each stream.
    pub moves: [usize; 2],
    /// Sums and largest entries of a tile's columns.
    pub moduli: usize,
    pub transposition: usize,
    /// Workspaces of cuBLAS and cuSOLVER.
    pub blas: usize,
    pub solver: usize,
    /// Memory for the vendor's solver of whole matrices, where the call has one.
    pub engine: usize,
}

/// The addresses of the parts.
#[derive(Clone, Copy, Debug)]
pub struct RankScratch {
    pub needs: Needs,
    pub own: Address,
    pub shared: Address,
    pub sums: Address,
    pub pivots: Address,
    pub arenas: [Address; 2],
    pub fetched: Address,
    pub panels: [Address; 2],
    pub infos: Address,
    pub panel_pivots: Address,
    pub moves: [Address; 2],
    pub moduli: Address,
    pub transposition: Address,
    pub blas: [Address; 2],
    pub solver: Address,
    pub engine: Address,
}

/// Bytes of workspace for cuBLAS, for a shard of so many bytes.
pub fn blas_workspace(shard: usize) -> usize {
    WORKSPACE[usize::from(shard >= LARGE)]
}

impl Needs {
    /// The parts in sequence, from `at` on.
    pub fn allocate(self, at: Address) -> RankScratch {
        let mut next = at.next_multiple_of(ALIGNMENT as Address);
        let mut part = |bytes: usize| {
            let begin = next;
            next += bytes.next_multiple_of(ALIGNMENT) as Address;
            begin
        };
        RankScratch {
            needs: self,
            own: part(self.own),
            shared: part(self.shared),
            sums: part(self.sums),
            pivots: part(self.pivots),
            arenas: [part(self.arenas[0]), part(self.arenas[1])],
            fetched: part(self.fetched),
            panels: [part(self.panel), part(self.panel)],
            infos: part(self.infos),
            panel_pivots: part(self.panel_pivots),
            moves: [part(self.moves[0]), part(self.moves[1])],
            moduli: part(self.moduli),
            transposition: part(self.transposition),
            blas: [part(self.blas), part(self.blas)],
            solver: part(self.solver),
            engine: part(self.engine),
        }
    }

    /// Bytes of all parts, for any first address.
    pub fn bytes(self) -> usize {
        let scratch = self.allocate(ALIGNMENT as Address);
        scratch.engine as usize + self.engine.next_multiple_of(ALIGNMENT)
    }
}
