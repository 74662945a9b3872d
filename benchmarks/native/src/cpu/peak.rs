//! The processor's peak of fused multiply-adds, which no matrix product exceeds. It runs chains of
//! them in registers, on all threads.

use std::hint::black_box;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// The best of these windows counts, so that a short interruption does not.
const WINDOWS: usize = 4;
const WINDOW: Duration = Duration::from_millis(20);
/// Steps of all chains between two readings of the clock: tens of microseconds.
const STEPS: usize = 10_000;

/// The instructions that compute the chains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    Avx512,
    Avx2,
    Portable,
}

impl Kernel {
    /// The kernels that this processor supports, the widest first.
    pub fn all() -> impl Iterator<Item = Kernel> {
        [Kernel::Avx512, Kernel::Avx2, Kernel::Portable].into_iter().filter(|kernel| kernel.there())
    }

    pub fn name(self) -> &'static str {
        match self {
            Kernel::Avx512 => "AVX-512",
            Kernel::Avx2 => "AVX2",
            Kernel::Portable => "portable",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn there(self) -> bool {
        match self {
            Kernel::Avx512 => is_x86_feature_detected!("avx512f"),
            Kernel::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Kernel::Portable => true,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn there(self) -> bool {
        self == Kernel::Portable
    }
}

/// A real type. The peak of complex arithmetic, in real operations, is that of its parts.
pub trait Real {
    /// Runs `steps` steps of independent chains x -> x / 2 + 1, whose limit is 2, from different
    /// start values. Returns the number of chains and the sum of their values.
    fn run(kernel: Kernel, steps: usize) -> (usize, f64);
}

/// A kernel of `$registers` registers of `$lanes` numbers.
#[cfg(target_arch = "x86_64")]
macro_rules! wide {
    ($name:ident, $real:ty, $features:literal, $registers:literal, $lanes:literal,
     $set:ident, $fma:ident) => {
        #[target_feature(enable = $features)]
        fn $name(steps: usize) -> (usize, f64) {
            use std::arch::x86_64::{$fma, $set};
            let (half, one) = ($set(black_box(0.5)), $set(black_box(1.0)));
            let mut x = [half; $registers];
            for (i, x) in x.iter_mut().enumerate() {
                *x = $set(black_box(i as $real));
            }
            for _ in 0..steps {
                for x in &mut x {
                    *x = $fma(*x, half, one);
                }
            }
            // SAFETY: the sizes are equal, and any bits are a valid number.
            let x: [[$real; $lanes]; $registers] = unsafe { std::mem::transmute(x) };
            let sum = x.as_flattened().iter().map(|&x| f64::from(x)).sum();
            ($registers * $lanes, sum)
        }
    };
}

// Half of the registers wait for the other half: a multiply-add takes four cycles, and two start in
// each cycle.
#[cfg(target_arch = "x86_64")]
wide!(f64_avx512, f64, "avx512f", 24, 8, _mm512_set1_pd, _mm512_fmadd_pd);
#[cfg(target_arch = "x86_64")]
wide!(f32_avx512, f32, "avx512f", 24, 16, _mm512_set1_ps, _mm512_fmadd_ps);
#[cfg(target_arch = "x86_64")]
wide!(f64_avx2, f64, "avx2,fma", 12, 4, _mm256_set1_pd, _mm256_fmadd_pd);
#[cfg(target_arch = "x86_64")]
wide!(f32_avx2, f32, "avx2,fma", 12, 8, _mm256_set1_ps, _mm256_fmadd_ps);

/// Whether `mul_add` is an instruction of the compilation target, and no function call.
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

macro_rules! real {
    ($real:ty, $avx512:ident, $avx2:ident) => {
        impl Real for $real {
            fn run(kernel: Kernel, steps: usize) -> (usize, f64) {
                // Twelve registers of 16 bytes, which all 64-bit processors have.
                const COUNT: usize = 12 * 16 / size_of::<$real>();
                assert!(kernel.there(), "{} on this processor", kernel.name());
                #[cfg(target_arch = "x86_64")]
                match kernel {
                    // SAFETY: the assertion has checked that the processor has it.
                    Kernel::Avx512 => return unsafe { $avx512(steps) },
                    // SAFETY: as above.
                    Kernel::Avx2 => return unsafe { $avx2(steps) },
                    Kernel::Portable => {}
                }
                let (half, one): ($real, $real) = (black_box(0.5), black_box(1.0));
                let mut x: [$real; COUNT] = black_box(std::array::from_fn(|i| i as $real));
                for _ in 0..steps {
                    for x in &mut x {
                        *x = if FUSED { x.mul_add(half, one) } else { *x * half + one };
                    }
                }
                (COUNT, x.iter().map(|&x| f64::from(x)).sum())
            }
        }
    };
}
real!(f32, f32_avx512, f32_avx2);
real!(f64, f64_avx512, f64_avx2);

/// Operations per second of multiply-adds, two each, on `threads` threads at once, and the kernel.
/// It takes a tenth of a second.
pub fn flops<T: Real>(threads: usize) -> (f64, Kernel) {
    let kernel = Kernel::all().next().unwrap_or(Kernel::Portable);
    let (together, rates) = (Barrier::new(threads), Mutex::new([0.0; WINDOWS]));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                window::<T>(kernel); // a warm-up: the clock rate rises during it
                together.wait();
                let own: [f64; WINDOWS] = std::array::from_fn(|_| window::<T>(kernel));
                let mut rates = rates.lock().unwrap();
                rates.iter_mut().zip(own).for_each(|(rate, own)| *rate += own);
            });
        }
    });
    let rates = rates.into_inner().unwrap();
    (rates.into_iter().fold(0.0, f64::max), kernel)
}

/// Operations per second of one thread.
fn window<T: Real>(kernel: Kernel) -> f64 {
    let (start, mut done) = (Instant::now(), 0);
    loop {
        done += 2 * STEPS * black_box(T::run(kernel, STEPS)).0;
        let seconds = start.elapsed();
        if seconds >= WINDOW {
            return done as f64 / seconds.as_secs_f64();
        }
    }
}
