//! The speed of this core now, to convert times to cycles without a hardware counter.
//!
//! A guest rarely has hardware counters, and the time-stamp counter ticks at a constant rate. A chain of 64-bit
//! multiplications that each need the result of the one before takes exactly three cycles a step on Intel's large cores
//! since 2011 and on every Zen (their makers' optimisation manuals), so its time gives the speed. On other cores, such as
//! AMD's before Zen, where a step takes up to six, all cycles come out too few by that factor.
#![allow(unsafe_code)]

/// The mean of the cycles in a nanosecond before and after a measurement.
pub fn mean(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some((before? + after?) / 2.0)
}

/// Cycles in a nanosecond, from a chain of 50 µs or so; `None` where no chain of known length is known.
pub fn per_ns() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        const STEPS: u32 = 15_000;
        let begun = std::time::Instant::now();
        let mut x = 3_u64;
        for _ in 0..STEPS / 8 {
            // SAFETY: it multiplies one register by itself and touches no memory.
            unsafe {
                std::arch::asm!(
                    "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}",
                    "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}",
                    inout(reg) x, options(nomem, nostack)
                );
            }
        }
        std::hint::black_box(x);
        Some(f64::from(3 * STEPS) / begun.elapsed().as_nanos() as f64)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
