//! What the algorithms ask of a rank, as work for its streams.

use super::*;
use crate::device::{in_new_order, no_engine};

impl<T: Scalar> Backend<T> for CudaLane<'_> {
    const IS_RANK: bool = true;
    const FLUSHES: bool = false;

    fn lane(&self) -> usize {
        self.rank
    }

    fn lanes(&self) -> usize {
        self.crew.seats.len()
    }

    fn potrf(&mut self, a: Block<T>, before: usize) -> Step {
        self.ask(|lane| {
            let info = lane.next_info(before);
            let workspace = Workspace { at: lane.room.solver, bytes: lane.room.needs.solver, info };
            let near = lane.near(a)?;
            let operand = Form::of(near, Op::None).operand();
            {
                let (solver, stream) = (&lane.libraries()?.solver, lane.stream());
                let _entered = lane.device.enter()?;
                solver.work_on(&lane.tools.solver, stream)?;
                // SAFETY: this rank's tile, which others read after it is announced.
                unsafe { solver.potrf::<T>(&mut lane.tools.solver, a.rows, operand, workspace)? };
            }
            lane.find_no_number(near, info)?;
            lane.back(near, a)
        })
    }

    fn trsm_panel(&mut self, l: Block<T>, x: Block<T>) {
        self.give(|lane| lane.solve_right_at((l, Op::Adjoint), Triangle::Lower, x));
    }

    fn trsm_right(&mut self, a: Block<T>, triangle: Triangle, x: Block<T>) {
        self.give(|lane| lane.solve_right_at((a, Op::None), triangle, x));
    }

    fn trtri(&mut self, a: Block<T>, triangle: Triangle) {
        self.give(|lane| {
            let n = a.rows;
            let ptr = std::ptr::without_provenance_mut(lane.room.own as usize);
            let inverse = Block::<T>::column_major(ptr, n, n, n);
            lane.identity(inverse)?;
            // The transpose, of which a triangle is mirrored to its place.
            lane.solve_left((a, Op::Transpose), triangle, inverse)?;
            let near = lane.near(a)?;
            lane.reflect(inverse, near, Some(triangle.is_lower()), false)?;
            lane.back(near, a)
        });
    }

    fn trmm(&mut self, a: Block<T>, triangle: Triangle, alpha: T, x: Block<T>) {
        self.give(|lane| {
            let (near, home) = (lane.near(x)?, x);
            let a = lane.near(a)?;
            let form = Form::of(a, Op::None);
            assert!(is_columns(&near) && form.op() == Op::None, "columns of a matrix");
            let _entered = lane.device.enter()?;
            let (blas, handle) = (&lane.libraries()?.blas, lane.handle());
            let x = Form::of(near, Op::None).operand();
            // SAFETY: operands of this call by its phases.
            unsafe {
                blas.trmm(handle, triangle, [near.rows, near.cols], alpha, form.operand(), x)?;
            }
            lane.back(near, home)
        });
    }

    fn getrf(
        &mut self,
        panel: Block<T>,
        first: usize,
        pivots: Block<i32>,
        group: &mut Group,
    ) -> Step {
        assert_eq!(group.size, 1, "a rank has its panels alone");
        self.ask(|lane| {
            let info = lane.next_info(first);
            let workspace = Workspace { at: lane.room.solver, bytes: lane.room.needs.solver, info };
            let here = lane.near(panel)?;
            let (operand, from) = (Form::of(here, Op::None).operand(), lane.room.panel_pivots);
            let bytes = panel.cols.min(panel.rows) * size_of::<i64>();
            assert!(bytes <= lane.room.needs.panel_pivots, "room for a panel's interchanges");
            {
                let (solver, stream) = (&lane.libraries()?.solver, lane.stream());
                let _entered = lane.device.enter()?;
                solver.work_on(&lane.tools.solver, stream)?;
                let shape = [panel.rows, panel.cols];
                // SAFETY: this rank's panel, which others read after it is announced.
                unsafe {
                    solver.getrf::<T>(&mut lane.tools.solver, shape, operand, from, workspace)?;
                }
            }
            lane.find_no_number(here, info)?;
            lane.back(here, panel)?;
            let near = lane.near(pivots)?;
            let (count, rows) = (near.rows as u64, panel.rows as u64);
            let arguments = [address(near), from, count, first as u64, rows];
            lane.launch("pivots", "number_pivots", &arguments)?;
            // What interchanges were known there may be others now.
            lane.found = Default::default();
            lane.back(near, pivots)
        })
    }

    fn swap_rows(&mut self, x: Block<T>, first: usize, pivots: Block<i32>, back: bool) {
        self.give(|lane| {
            let near = lane.near(x)?;
            lane.interchange(near, first, pivots, back)?;
            lane.back(near, x)
        });
    }

    fn interchanged(&mut self, pivots: Block<i32>) -> Step<Vec<usize>> {
        self.ask(|lane| {
            let near = lane.near(pivots)?;
            let mut numbers = vec![0i32; near.rows];
            let piece = Piece::of(near);
            let to = numbers.as_mut_ptr().cast();
            // SAFETY: as many numbers.
            unsafe {
                lane.device.read_lines(piece.lines, piece.width, piece.height, to, lane.main())?
            };
            Ok(in_new_order(&numbers))
        })
    }

    fn update(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
    ) {
        self.give(|lane| lane.subtract(a, k, targets, update, 0..a.columns.n()));
    }

    fn update_rows(
        &mut self,
        a: &Matrix<T>,
        k: usize,
        targets: impl Iterator<Item = usize> + Clone,
        update: Update,
        rows: Range<usize>,
    ) {
        self.give(|lane| lane.subtract(a, k, targets, update, rows));
    }

    fn trsm(&mut self, a: Block<T>, triangle: Triangle, op: Op, x: Block<T>) {
        self.give(|lane| {
            let near = lane.near(x)?;
            lane.solve_left((a, op), triangle, near)?;
            lane.back(near, x)
        });
    }

    fn gemm(&mut self, c: Block<T>, alpha: T, a: Block<T>, op: Op, b: Block<T>) {
        self.give(|lane| lane.multiply_at(c, alpha, (a, op), (b, Op::None)));
    }

    fn add(&mut self, c: Block<T>, s: Block<T>) {
        self.give(|lane| {
            let (near, s) = (lane.near(c)?, lane.near(s)?);
            lane.raise(near, s)?;
            lane.back(near, c)
        });
    }

    fn largest(&mut self, x: Block<T>) -> Step<f64> {
        let x = if is_columns(&x) { x } else { x.transposed() };
        self.moduli(x, None).map(|found| found.entry)
    }

    fn moduli(&mut self, x: Block<T>, rows: Option<Block<f64>>) -> Step<Moduli> {
        self.ask(|lane| lane.sums(x, rows))
    }

    fn add_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.give(|lane| lane.add_sums(x, sums));
    }

    fn squares(&mut self, x: Block<T>) -> Step<Squares> {
        self.ask(|lane| lane.sum_squares(x))
    }

    fn hermitian_moduli(&mut self, x: Block<T>, sums: Block<f64>) {
        self.give(|lane| lane.hermitian_sums(x, sums));
    }

    /// Subnormal numbers cost nothing here.
    fn keep_subnormals(&mut self, _: bool) {}

    fn fork(&mut self) {
        self.give(|lane| {
            let event = lane.mark(lane.main())?;
            lane.device.wait_for(event, lane.tools.side)
        });
        self.apart = true;
    }

    fn ahead(&mut self, on: bool) {
        self.ahead = on;
    }

    fn whole(&mut self, a: &Matrix<T>, step: WholeStep<T>) -> Step {
        let (crew, rank) = (self.crew, self.rank);
        if a.columns.n() == 0 {
            return Ok(());
        }
        let Some(engine) = &crew.engine else { return Err(self.fail_with(no_engine())) };
        let seats = &crew.seats;
        let sides = match step {
            WholeStep::Solve { x, conjugated, .. } => x.map(|x| (x, conjugated)),
            _ => None,
        };
        if let Some((x, conjugated)) = sides {
            let b = engine.rhs(rank, &seats[rank]);
            self.copy(x, b);
            if conjugated {
                self.conjugate(b);
            }
        }
        // The engine knows nothing of streams.
        self.ask(|lane| {
            lane.join()?;
            lane.device.wait(lane.main())
        })?;
        Backend::<T>::barrier(self)?;
        if rank == 0 {
            // SAFETY: the others wait below, and all ranks' work is done.
            let info = self.ask(|_| unsafe { engine.run(seats, a, step) })?;
            if info > 0 {
                self.team.report(info);
            }
        }
        Backend::<T>::barrier(self)?;
        if let Some((x, conjugated)) = sides {
            let b = engine.rhs(rank, &seats[rank]);
            if conjugated {
                self.conjugate(b);
            }
            self.copy(b, x);
        }
        if let WholeStep::Potrf | WholeStep::Getrf(_) = step {
            let mine = (rank..a.columns.count()).step_by(seats.len());
            for t in mine {
                let (tile, before) = (a.diagonal(t), a.columns.tile(t).global);
                self.ask(|lane| {
                    let info = lane.next_info(before);
                    // SAFETY: a number of this rank's scratch.
                    unsafe { lane.device.clear(info, size_of::<i32>(), lane.main())? };
                    lane.find_no_number(tile, info)
                })?;
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, a: &Matrix<T>, k: usize) {
        self.give(|lane| lane.send_panel(a, k));
    }

    fn copy(&mut self, from: Block<T>, to: Block<T>) {
        self.give(|lane| lane.put_at(from, to));
    }

    fn shift_columns(
        &mut self,
        lists: impl Iterator<Item = impl Iterator<Item = Block<T>>>,
        spare: Option<Block<T>>,
    ) {
        self.give(|lane| lane.shift_all(lists.map(Iterator::collect), spare));
    }

    fn mirror(&mut self, from: Block<T>, to: Block<T>, diagonal: bool, conjugated: bool) {
        self.give(|lane| {
            let (source, target) = (lane.near(from)?, lane.near(to)?);
            lane.reflect(source, target, diagonal.then_some(true), conjugated)?;
            lane.back(target, to)
        });
    }

    fn fill(&mut self, to: Block<T>, value: T) {
        if value == T::ZERO {
            self.give(|lane| {
                let near = lane.near(to)?;
                let Piece { lines, width, height } = Piece::of(near);
                // SAFETY: a block of this call by its phases.
                unsafe { lane.device.clear_lines(lines, width, height, lane.stream())? };
                lane.back(near, to)
            });
        } else {
            self.put(&vec![value; to.rows * to.cols], to);
        }
    }

    fn clear_outside(&mut self, a: Block<T>, triangle: Triangle) {
        self.give(|lane| {
            let near = lane.near(a)?;
            let (stored, lower) = match is_columns(&near) {
                true => (near, triangle.is_lower()),
                false => (near.transposed(), !triangle.is_lower()),
            };
            let (rows, cols) = (stored.rows as u64, stored.cols as u64);
            let stride = stored.col_stride as u64;
            let arguments = [address(stored), stride, rows, cols, u64::from(lower)];
            lane.launch("triangle", &format!("clear_outside_{}", size_of::<T>()), &arguments)?;
            lane.back(near, a)
        });
    }

    fn conjugate(&mut self, x: Block<T>) {
        if T::IS_COMPLEX {
            self.give(|lane| {
                let near = lane.near(x)?;
                lane.conjugate_in_place(near)?;
                lane.back(near, x)
            });
        }
    }

    fn get(&mut self, from: Block<T>, to: &mut [T]) -> Step {
        self.ask(|lane| {
            let near = lane.near(from)?;
            let piece = Piece::of(near);
            let mut stored = vec![T::ZERO; to.len()];
            // SAFETY: as many elements.
            unsafe {
                let at = stored.as_mut_ptr().cast();
                lane.device.read_lines(
                    piece.lines,
                    piece.width,
                    piece.height,
                    at,
                    lane.stream(),
                )?;
            }
            reorder(&mut stored, near, |stored, row| to[row] = *stored);
            Ok(())
        })
    }

    fn put(&mut self, from: &[T], to: Block<T>) {
        self.give(|lane| {
            let near = lane.near(to)?;
            let mut stored = vec![T::ZERO; from.len()];
            reorder(&mut stored, near, |stored, row| *stored = from[row]);
            let piece = Piece::of(near);
            // SAFETY: as many elements.
            unsafe {
                let at = stored.as_ptr().cast();
                lane.device.write_lines(
                    piece.lines,
                    at,
                    piece.width,
                    piece.height,
                    lane.stream(),
                )?;
            }
            lane.back(near, to)
        });
    }

    fn transpose_shards(
        &mut self,
        plan: &transpose::Plan,
        shards: &[*mut T],
        _: Block<T>,
        _: *mut T,
    ) -> Step {
        self.ask(|lane| {
            let (data, scratch) = (shards[lane.rank].addr() as Address, lane.room.transposition);
            // SAFETY: this rank's shard, of the plan's shape, and scratch of this call for it.
            unsafe { transposition::transpose(lane.device, plan, data, scratch, lane.main()) }
        })?;
        Backend::<T>::barrier(self)
    }

    fn transpose_square(&mut self, a: &Matrix<T>) -> Step {
        // Nobody writes into another rank's shard while that has work of its own there.
        Backend::<T>::barrier(self)?;
        self.ask(|lane| {
            let (size, ranks, n) = (size_of::<T>(), a.columns.ranks(), a.columns.n());
            lane.crew.reach_all(lane.rank)?;
            let table: Vec<u64> = a.shards.iter().map(|shard| address(*shard)).collect();
            let bytes = size_of_val(&table[..]);
            let place = Lines { at: lane.room.arenas[0], pitch: bytes };
            assert!(bytes <= lane.room.needs.arenas[0], "room for the table");
            // SAFETY: scratch of this rank.
            unsafe {
                lane.device.write_lines(place, table.as_ptr().cast(), bytes, 1, lane.main())?;
            }
            let tiles = ranks * (n / ranks).div_ceil(transpose::device::tile_side(size));
            let pairs = tiles * (tiles + 1) / 2;
            let share = |rank: usize| (pairs as u128 * rank as u128 / ranks as u128) as u64;
            let arguments =
                [place.at, ranks as u64, n as u64, share(lane.rank), share(lane.rank + 1)];
            lane.launch("transpose_square", &format!("transpose_shards_{size}"), &arguments)
        })?;
        Backend::<T>::barrier(self)
    }

    fn announce(&mut self, signal: Signal, count: usize) {
        let ranks = self.crew.seats.len();
        self.give(|lane| {
            if ranks > 1 || lane.ahead || lane.clique.is_some() {
                let event = lane.mark(lane.stream())?;
                lane.crew.announce(signal, count, event);
            }
            Ok(())
        });
        if !self.failed {
            self.team.signal(signal).announce(count);
        }
    }

    fn wait(&mut self, signal: Signal, count: usize) -> Step {
        self.team.signal(signal).wait(count)?;
        self.ask(|lane| {
            let Some(event) = lane.crew.event(signal, count) else { return Ok(()) };
            lane.device.wait_for(event, lane.main())?;
            if signal == Signal::Panels {
                lane.device.wait_for(event, lane.tools.side)?;
            }
            Ok(())
        })
    }

    fn sharers(&self, _: usize) -> usize {
        1
    }

    fn meeting(&self) -> f64 {
        f64::INFINITY
    }

    fn meet(&mut self, group: &mut Group) -> Step {
        assert_eq!(group.size, 1, "a rank has its panels alone");
        Ok(())
    }

    fn barrier(&mut self) -> Step {
        let number = self.ask(|lane| {
            lane.join()?;
            let event = lane.mark(lane.main())?;
            Ok(lane.crew.arrive(lane.rank, event))
        })?;
        self.team.barrier().wait()?;
        self.ask(|lane| {
            let events = lane.crew.at_barrier(lane.rank, number);
            let main = lane.main();
            events.into_iter().try_for_each(|event| lane.device.wait_for(event, main))?;
            // What lay in others' panels may be another thing now.
            lane.staged = [None; 2];
            Ok(())
        })
    }

    fn fail(&mut self, error: Error) -> Stopped {
        self.fail_with(error)
    }

    fn report(&mut self, info: usize) {
        self.team.report(info);
    }

    /// Panels are given to the device long before it factors them: there is nothing to tell.
    fn progress(&mut self, _: usize, _: usize) {}
}

/// Visits the elements as a block is stored in memory, each with its number row by row.
fn reorder<T>(stored: &mut [T], block: Block<T>, mut visit: impl FnMut(&mut T, usize)) {
    let by_columns = is_columns(&block);
    for (k, element) in stored.iter_mut().enumerate() {
        let number = if by_columns { k % block.rows * block.cols + k / block.rows } else { k };
        visit(element, number);
    }
}
