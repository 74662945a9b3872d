//! The host's plans of transposition on an emulated device.

use meshsolve::transpose::Plan;
use meshsolve::transpose::device::{Argument, Launch};

use crate::kernels::emulator::Emulator;
use crate::kernels::memory::Array;

/// The blocks of a grid, and the order in which threads take turns.
#[derive(Clone, Copy)]
pub struct Device {
    pub emulator: &'static Emulator,
    pub blocks: u32,
    pub seed: u64,
}

impl Device {
    /// Runs all launches of a plan, or others in their place, with scratch of exactly the requested
    /// size.
    pub fn transpose(&self, plan: &Plan, launches: &[Launch], data: *mut u8) {
        let (size, alignment) = (plan.element_size(), 1 << data.addr().trailing_zeros());
        let mut scratch = Array::new(plan.device_bytes(), size);
        for launch in launches {
            let mut claims = Array::zeros(plan.claim_bytes(alignment), 16);
            let values: Vec<u64> = launch
                .arguments
                .iter()
                .map(|argument| match argument {
                    Argument::Data => data.addr() as u64,
                    Argument::Scratch => scratch.pointer().addr() as u64,
                    Argument::Claims => claims.pointer().addr() as u64,
                    Argument::Integer(x) => *x,
                })
                .collect();
            self.launch(launch, &values);
            claims.check(&launch.entry());
            scratch.check(&launch.entry());
        }
    }

    fn launch(&self, launch: &Launch, values: &[u64]) {
        let name = launch.entry();
        macro_rules! call {
            ($($argument:ident)*) => {{
                let &[$($argument),*] = values else { unreachable!() };
                type Kernel = unsafe extern "C" fn($(call!(@ $argument)),*);
                // SAFETY: all parameters are addresses and 64-bit integers, which have the same
                // calling convention.
                let kernel: Kernel = unsafe { self.emulator.kernel(&name) };
                // SAFETY: the array has the plan's size, and the scratch the size that the plan
                // requests.
                let body = || unsafe { kernel($($argument),*) };
                self.emulator.launch(self.blocks, self.seed, body);
            }};
            (@ $argument:ident) => { u64 };
        }
        match values.len() {
            3 => call!(a b c),
            4 => call!(a b c d),
            6 => call!(a b c d e f),
            7 => call!(a b c d e f g),
            8 => call!(a b c d e f g h),
            9 => call!(a b c d e f g h i),
            other => panic!("{name} with {other} arguments"),
        }
    }
}
