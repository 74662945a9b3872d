//! How the processor treats subnormal numbers, per thread.
//!
//! A subnormal operand costs a hundred cycles, and matrices that decay away from the diagonal are
//! full of them. XLA flushes them to zero. This ruins matrices with all entries close to underflow
//! (a residual ratio of 1e6 where less than 1 is possible). So a routine decides by the magnitude
//! of its data, and informs its workers. A thread inherits the mode of the thread that starts it,
//! hence every worker sets its own. After a promise is completed, the rest of your program runs in
//! the mode of XLA's thread again.

/// The floating-point control state of a thread.
#[derive(Clone, Copy)]
pub struct FloatMode(u64);

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl FloatMode {
    /// Rounds to nearest, keeps subnormals, masks exceptions. Rust assumes this mode.
    pub const IEEE: FloatMode = FloatMode(0x1f80);
    /// The same, but subnormal operands and results are zero.
    pub const FLUSH: FloatMode = FloatMode(0x1f80 | 1 << 15 | 1 << 6);

    pub fn current() -> FloatMode {
        let mut mxcsr = 0u32;
        // SAFETY: stores four bytes in a local variable of four bytes.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack)) };
        FloatMode(mxcsr.into())
    }

    /// Puts the calling thread into this mode.
    pub fn enter(self) {
        let mxcsr = self.0 as u32;
        // SAFETY: a state that was current on some thread, or the default.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mxcsr, options(nostack)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
impl FloatMode {
    pub const IEEE: FloatMode = FloatMode(0);
    pub const FLUSH: FloatMode = FloatMode(1 << 24);

    pub fn current() -> FloatMode {
        let fpcr: u64;
        // SAFETY: only reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack, nomem)) };
        FloatMode(fpcr)
    }

    /// Puts the calling thread into this mode.
    pub fn enter(self) {
        // SAFETY: a state that was current on some thread, or the default.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) self.0, options(nostack, nomem)) };
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl FloatMode {
    pub const IEEE: FloatMode = FloatMode(0);
    pub const FLUSH: FloatMode = FloatMode(0);

    pub fn current() -> FloatMode {
        FloatMode(0)
    }

    /// Other processors keep their mode, and so does Miri, which knows no assembly.
    pub fn enter(self) {}
}
