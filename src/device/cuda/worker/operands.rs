//! Blocks as operands of the vendor's libraries and of kernels: their storage order and conjugates.
//! The libraries conjugate only transposes.

use super::*;

/// Whether a block's columns are contiguous, rather than its rows.
pub(super) fn is_columns<T>(block: &Cells<T>) -> bool {
    let columns = block.row_stride() == 1 || block.rows() <= 1;
    assert!(
        columns || block.col_stride() == 1 || block.cols() <= 1,
        "columns or rows in one piece"
    );
    columns
}

/// A block, or its transpose, whose columns are contiguous; and whether it is the block.
pub(super) fn stored<T>(block: Cells<T>) -> (Cells<T>, bool) {
    if is_columns(&block) { (block, true) } else { (block.transposed(), false) }
}

/// The modes of the sums of `kernels/moduli.cu`.
const SET: u64 = 0;
const HERMITIAN: u64 = 1;
const ADDED: u64 = 2;

/// A block as lines of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub lines: Lines,
    pub width: usize,
    pub height: usize,
    pub rank: usize,
}

impl Piece {
    pub fn of<T>(block: Cells<T>) -> Piece {
        let size = size_of::<T>();
        let (block, _) = stored(block);
        let (length, count) = match block.row_stride() {
            1 => (block.rows(), block.cols()),
            // One row of separate elements.
            _ => (block.rows().min(1), block.cols()),
        };
        let pitch = if count > 1 { block.col_stride() * size } else { length * size };
        let (lines, width) = (Lines { at: address(block), pitch }, length * size);
        Piece { lines, width, height: count, rank: block.rank() }
    }

    /// The rank that has it, and its lines there.
    pub fn place(self) -> (usize, Lines) {
        (self.rank, self.lines)
    }

    pub fn size(self) -> (usize, usize) {
        (self.width, self.height)
    }
}

/// A block as the libraries take it: stored by columns, transposed or conjugated when it is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    at: Address,
    leading: usize,
    rows: usize,
    cols: usize,
    pub transposed: bool,
    pub conjugated: bool,
}

impl Form {
    pub fn of<T: Scalar>(block: Cells<T>, op: Op) -> Form {
        let (stored, columns) = stored(block);
        Form {
            at: address(stored),
            leading: stored.col_stride().max(stored.rows()).max(1),
            rows: stored.rows(),
            cols: stored.cols(),
            transposed: op.transposes() == columns,
            conjugated: op.conjugates() && T::IS_COMPLEX,
        }
    }

    /// The same operand in the transpose of a product.
    fn flipped(self) -> Form {
        Form { transposed: !self.transposed, ..self }
    }

    /// The same operand in the conjugate of a product.
    fn conjugate(self) -> Form {
        Form { conjugated: !self.conjugated, ..self }
    }

    /// Whether the libraries lack the operation: a conjugate that is not transposed.
    fn is_strange(self) -> bool {
        self.conjugated && !self.transposed
    }

    pub fn op(self) -> Op {
        match (self.transposed, self.conjugated) {
            (false, false) => Op::None,
            (true, false) => Op::Transpose,
            (true, true) => Op::Adjoint,
            (false, true) => Op::Conjugate,
        }
    }

    pub fn operand(self) -> Operand {
        Operand { at: self.at, leading: self.leading, op: self.op() }
    }
}

/// A triangle of the transpose.
fn other(triangle: Triangle) -> Triangle {
    match triangle {
        Triangle::Lower => Triangle::Upper,
        Triangle::UnitLower => Triangle::UnitUpper,
        Triangle::Upper => Triangle::Lower,
        Triangle::UnitUpper => Triangle::UnitLower,
    }
}

impl CudaWorker<'_> {
    pub(super) fn is_local<U>(&self, block: Cells<U>) -> bool {
        block.rows() * block.cols() == 0 || block.rank() == self.rank
    }

    /// So many bytes of the present stream's arena, until the next operation.
    pub(super) fn take(&mut self, bytes: usize) -> Address {
        let arena = usize::from(self.ahead);
        let start = self.taken.next_multiple_of(16);
        self.taken = start + bytes;
        assert!(self.taken <= self.scratch.needs.arenas[arena], "room for what an operation needs");
        self.scratch.arenas[arena] + start as Address
    }

    /// An operand of a kernel, which this rank has.
    pub(super) fn own<'c, U>(&self, block: Cells<'c, U>) -> Cells<'c, U> {
        assert!(self.is_local(block), "memory of rank {}, on rank {}", block.rank(), self.rank);
        block
    }

    /// Copies a block to one with the same storage order, or a column of any stride to one in one
    /// piece, or back.
    pub(super) fn transfer<U>(&mut self, from: Cells<U>, to: Cells<U>) -> Result<()> {
        let (mut from, mut to) = (Piece::of(from), Piece::of(to));
        if to.height == 1 {
            to.lines.pitch = from.width;
        } else if from.height == 1 {
            assert_eq!(from.width, to.width * to.height, "lines of a copy");
            let lines = Lines { pitch: to.width, ..from.lines };
            from = Piece { lines, width: to.width, height: to.height, ..from };
        } else {
            assert_eq!(from.size(), to.size(), "lines of a copy");
        }
        self.move_piece(from, to)
    }

    pub(super) fn move_piece(&mut self, from: Piece, to: Piece) -> Result<()> {
        if from.width * from.height == 0 {
            return Ok(());
        }
        let (device, stream) = (self.device, self.stream());
        // SAFETY: *memory* of the operands, and *order*, promised to `CudaWorker::new`.
        unsafe { self.cuda_comm.copy(to.place(), from.place(), from.size(), device, stream) }
    }

    /// Copies a block between any storage orders.
    pub(super) fn put_at<T: Scalar>(&mut self, from: Cells<T>, to: Cells<T>) -> Result<()> {
        assert_eq!((from.rows(), from.cols()), (to.rows(), to.cols()), "shapes of a copy");
        let (from, to) = (self.own(from), self.own(to));
        let alike = is_columns(&from) == is_columns(&to) || from.rows() <= 1 && from.cols() <= 1;
        if alike || from.rows() * from.cols() == 0 {
            return self.transfer(from, to);
        }
        self.mirror_block(from.transposed(), to, None, false)
    }

    /// `to <- from^T`, or from^H. With `lower` it writes only the lower (or upper) triangle of
    /// `to`, and the diagonal is real if `conjugated`.
    pub(super) fn mirror_block<T: Scalar>(
        &mut self,
        from: Cells<T>,
        to: Cells<T>,
        lower: Option<bool>,
        conjugated: bool,
    ) -> Result<()> {
        if to.rows() * to.cols() == 0 {
            return Ok(());
        }
        let (from, to, lower) = match is_columns(&to) && (to.rows() > 1 || is_columns(&from)) {
            true => (from, to, lower),
            false => (from.transposed(), to.transposed(), lower.map(|lower| !lower)),
        };
        assert!(is_columns(&from) && is_columns(&to), "blocks of one orientation");
        let part = match lower {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        let arguments = [
            address(to),
            to.col_stride() as u64,
            address(from),
            from.col_stride() as u64,
            to.rows() as u64,
            to.cols() as u64,
            part,
            u64::from(conjugated && T::IS_COMPLEX),
        ];
        self.launch("triangle", &format!("mirror_{}", size_of::<T>()), &arguments)
    }

    /// Conjugates this rank's block.
    pub(super) fn conjugate_in_place<T: Scalar>(&mut self, x: Cells<T>) -> Result<()> {
        let stored = Form::of(x, Op::None);
        self.conjugate_to::<T>(stored, stored)
    }

    fn conjugate_to<T: Scalar>(&mut self, from: Form, to: Form) -> Result<()> {
        let arguments = [
            to.at,
            to.leading as u64,
            from.at,
            from.leading as u64,
            from.rows as u64,
            from.cols as u64,
        ];
        self.launch("conjugate", &format!("conjugate_{}", size_of::<T>()), &arguments)
    }

    /// Stores the conjugate in a copy. The returned form conjugates that, so its value is the same.
    fn conjugated_copy<T: Scalar>(&mut self, form: Form) -> Result<Form> {
        let at = self.take(form.rows * form.cols * size_of::<T>());
        let copy = Form { at, leading: form.rows.max(1), ..form.conjugate() };
        self.conjugate_to::<T>(form, copy)?;
        Ok(copy)
    }

    /// `C <- C + alpha op(A) op(B)`.
    pub(super) fn multiply<T: Scalar>(
        &mut self,
        c: Cells<T>,
        alpha: T,
        (a, op_a): (Cells<T>, Op),
        (b, op_b): (Cells<T>, Op),
    ) -> Result<()> {
        let inner = if op_a.transposes() { a.rows() } else { a.cols() };
        if c.rows() * c.cols() * inner == 0 {
            return Ok(());
        }
        let (a, b) = (Form::of(self.own(a), op_a), Form::of(self.own(b), op_b));
        let (target, taken) = (Form::of(self.own(c), Op::None), self.taken);
        // The transpose of a C by rows is by columns.
        let (mut left, mut right, [m, n]) = match target.transposed {
            false => (a, b, [c.rows(), c.cols()]),
            true => (b.flipped(), a.flipped(), [c.cols(), c.rows()]),
        };
        let strange = [left, right].into_iter().filter(|form| form.is_strange()).count();
        // Conjugates the whole product, and copies an operand that this makes strange: a part of x,
        // with few columns where products are many.
        if strange > 0 {
            self.conjugate_to::<T>(target, target)?;
            (left, right) = (left.conjugate(), right.conjugate());
            for form in [&mut left, &mut right] {
                if form.is_strange() {
                    *form = self.conjugated_copy::<T>(*form)?;
                }
            }
        }
        let alpha = if strange > 0 { T::conj_impl(&alpha) } else { alpha };
        {
            let _entered = self.device.enter()?;
            let (blas, handle) = (&self.libraries()?.blas, self.handle());
            let operands = (left.operand(), right.operand());
            let c = Operand { op: Op::None, ..target.operand() };
            // SAFETY: *memory* and *order* of the operands, promised to `CudaWorker::new`.
            unsafe { blas.gemm(handle, [m, n, inner], alpha, operands.0, operands.1, c)? };
        }
        self.taken = taken;
        if strange > 0 { self.conjugate_to::<T>(target, target) } else { Ok(()) }
    }

    /// `X <- op(A)^-1 X` with a triangle of A.
    pub(super) fn solve_left<T: Scalar>(
        &mut self,
        (a, op): (Cells<T>, Op),
        triangle: Triangle,
        x: Cells<T>,
    ) -> Result<()> {
        self.solve_triangle((a, op), triangle, x, false)
    }

    /// The same, or `X <- X op(A)^-1` on the `right`.
    pub(super) fn solve_triangle<T: Scalar>(
        &mut self,
        (a, op): (Cells<T>, Op),
        triangle: Triangle,
        x: Cells<T>,
        right: bool,
    ) -> Result<()> {
        if x.rows() * x.cols() == 0 {
            return Ok(());
        }
        let (a, x) = (self.own(a), self.own(x));
        let triangle = if is_columns(&a) { triangle } else { other(triangle) };
        let (mut form, target) = (Form::of(a, op), Form::of(x, Op::None));
        // The transpose of an X by rows is by columns.
        let (right, shape) = match target.transposed {
            false => (right, [x.rows(), x.cols()]),
            true => (!right, [x.cols(), x.rows()]),
        };
        if target.transposed {
            form = form.flipped();
        }
        let strange = form.is_strange();
        if strange {
            self.conjugate_to::<T>(target, target)?;
            form = form.conjugate();
        }
        {
            let _entered = self.device.enter()?;
            let (blas, handle) = (&self.libraries()?.blas, self.handle());
            let x = Operand { op: Op::None, ..target.operand() };
            // SAFETY: *memory* and *order* of the operands, promised to `CudaWorker::new`.
            unsafe { blas.trsm::<T>(handle, right, triangle, shape, form.operand(), x)? };
        }
        if strange { self.conjugate_to::<T>(target, target) } else { Ok(()) }
    }

    /// `C <- C + S`.
    pub(super) fn raise<T: Scalar>(&mut self, c: Cells<T>, s: Cells<T>) -> Result<()> {
        if c.rows() * c.cols() == 0 {
            return Ok(());
        }
        let (target, mut from) = (Form::of(c, Op::None), Form::of(s, Op::None));
        let shape = if target.transposed { [c.cols(), c.rows()] } else { [c.rows(), c.cols()] };
        if target.transposed {
            from = from.flipped();
        }
        let _entered = self.device.enter()?;
        let c = Operand { op: Op::None, ..target.operand() };
        // SAFETY: *memory* and *order* of the operands, promised to `CudaWorker::new`.
        unsafe { self.libraries()?.blas.add::<T>(self.handle(), shape, from.operand(), c) }
    }

    /// The unit matrix.
    pub(super) fn identity<T: Scalar>(&mut self, to: Cells<T>) -> Result<()> {
        let Piece { lines, width, height, .. } = Piece::of(to);
        // SAFETY: this rank's scratch, promised to `CudaWorker::new`.
        unsafe { self.device.clear_lines(lines, width, height, self.stream())? };
        self.ones_on_diagonal(to)
    }

    /// Writes ones on the diagonal of a block.
    pub(super) fn ones_on_diagonal<T: Scalar>(&mut self, to: Cells<T>) -> Result<()> {
        let size = size_of::<T>();
        let diagonal = Lines { at: address(to), pitch: (to.col_stride() + 1) * size };
        // SAFETY: *memory* and *order* of the operand, promised to `CudaWorker::new`.
        unsafe { self.device.clear_lines(diagonal, size, to.cols(), self.stream())? };
        // Real parts of the diagonal, each as a column of one number.
        let words = size_of::<T>() / size_of::<T::Real>();
        let (name, one) = match T::DTYPE.real() {
            DType::F32 => ("fill_4", u64::from(1f32.to_bits())),
            _ => ("fill_8", 1f64.to_bits()),
        };
        let stride = (to.col_stride() + 1) * words;
        self.launch("fill", name, &[address(to), stride as u64, 1, to.cols() as u64, one])
    }

    /// Sums of moduli of X. Adds row sums to `rows`.
    pub(super) fn sums<T: Scalar>(
        &mut self,
        x: Cells<T>,
        rows: Option<Cells<f64>>,
    ) -> Result<Moduli> {
        if x.rows() * x.cols() == 0 {
            return Ok(Moduli::default());
        }
        let x = self.own(x);
        let (cols, sums) = (x.cols(), self.scratch.moduli);
        assert!(2 * cols * size_of::<f64>() <= self.scratch.needs.moduli, "room for a tile's sums");
        let largest = sums + (cols * size_of::<f64>()) as Address;
        let shape = [address(x), x.col_stride() as u64, x.rows() as u64, cols as u64, SET];
        let arguments = [&shape[..], &[sums, largest]].concat();
        self.launch("moduli", &format!("column_moduli_{}", suffix(T::DTYPE)), &arguments)?;
        if let Some(rows) = rows {
            let arguments = [&shape[..], &[address(rows)]].concat();
            self.launch("moduli", &format!("row_moduli_{}", suffix(T::DTYPE)), &arguments)?;
        }
        let mut found = vec![0f64; 2 * cols];
        let bytes = size_of_val(&found[..]);
        // SAFETY: `found` has room for both lists, which are in this rank's scratch.
        unsafe {
            let (from, to) = (Lines { at: sums, pitch: bytes }, found.as_mut_ptr().cast());
            self.device.read_lines(from, bytes, 1, to, self.stream())?;
        }
        let (sums, largest) = found.split_at(cols);
        let of_column = |(&column, &entry): (&f64, &f64)| Moduli { column, entry };
        Ok(sums.iter().zip(largest).map(of_column).fold(Moduli::default(), Moduli::and))
    }

    /// Adds the sums of moduli over the rows of X to `sums`.
    pub(super) fn add_sums<T: Scalar>(&mut self, x: Cells<T>, sums: Cells<f64>) -> Result<()> {
        if x.rows() * x.cols() == 0 {
            return Ok(());
        }
        let (stored, by_columns) = stored(self.own(x));
        let shape = [address(stored), stored.col_stride() as u64, stored.rows() as u64];
        let (kernel, how, rest) = match by_columns {
            true => ("row", 0, vec![address(sums)]),
            false => ("column", ADDED, vec![address(sums), self.scratch.moduli]),
        };
        let arguments = [&shape[..], &[stored.cols() as u64, how], &rest].concat();
        self.launch("moduli", &format!("{kernel}_moduli_{}", suffix(T::DTYPE)), &arguments)
    }

    /// Sums of squared moduli of X.
    pub(super) fn sum_squares<T: Scalar>(&mut self, x: Cells<T>) -> Result<Squares> {
        let mut all = Squares::default();
        if x.rows() * x.cols() == 0 {
            return Ok(all);
        }
        let (stored, _) = stored(self.own(x));
        // Real numbers, with three sums for each column.
        let words = size_of::<T>() / size_of::<T::Real>();
        let most = self.scratch.needs.moduli / (3 * size_of::<f64>());
        let (rows, stride) = (stored.rows() * words, stored.col_stride() * words);
        let name = format!("column_squares_{}", suffix(T::DTYPE.real()));
        for first in (0..stored.cols()).step_by(most) {
            let part = stored.sub(0, first, stored.rows(), most.min(stored.cols() - first));
            let (cols, to) = (part.cols(), self.scratch.moduli);
            let arguments = [address(part), stride as u64, rows as u64, cols as u64, to];
            self.launch("moduli", &name, &arguments)?;
            let mut found = vec![Squares::default(); cols];
            let bytes = size_of_val(&found[..]);
            // SAFETY: `found` has as many sums, in this order, of this rank's scratch.
            unsafe {
                let (from, to) = (Lines { at: to, pitch: bytes }, found.as_mut_ptr().cast());
                self.device.read_lines(from, bytes, 1, to, self.stream())?;
            }
            all = found.into_iter().fold(all, Squares::and);
        }
        Ok(all)
    }

    /// Adds what the lower triangle of a Hermitian matrix contributes to its column sums.
    pub(super) fn hermitian_sums<T: Scalar>(
        &mut self,
        x: Cells<T>,
        sums: Cells<f64>,
    ) -> Result<()> {
        if x.rows() * x.cols() == 0 {
            return Ok(());
        }
        let x = self.own(x);
        let shape =
            [address(x), x.col_stride() as u64, x.rows() as u64, x.cols() as u64, HERMITIAN];
        let arguments = [&shape[..], &[address(sums), self.scratch.moduli]].concat();
        self.launch("moduli", &format!("column_moduli_{}", suffix(T::DTYPE)), &arguments)?;
        let arguments = [&shape[..], &[address(sums)]].concat();
        self.launch("moduli", &format!("row_moduli_{}", suffix(T::DTYPE)), &arguments)
    }
}
