//! The machine code of *A Tale of Two Copies*, its two versions and variants of it: what makes 28 bytes slower than 32.
//!
//! A processor answers a load from a store that has not reached the cache yet, if one store has all of the bytes. Else the load
//! is blocked until the stores are through. Each variant changes one thing:
//!
//! ```text
//!   the text's 28    stored  │─── 16 ───│          loaded  │─── 16 ───│            both stores have bytes of the first load
//!                                    │─── 16 ───│                  │─── 16 ───│
//!   one store each   stored  the same              loaded  │ 8 │ 4 ││─── 16 ───│
//!   disjoint         stored  │─── 16 ───│ 8 │ 4 │ loaded  the text's              the second load needs three stores
//!   later            stored  the same              loaded  the text's, from what was stored 63 entries ago
//! ```
//! Where the processor counts blocked loads, the column `blocked` has the count.
#![allow(unsafe_code)]

use super::{
    copies::{Buffer, append_28, append_32},
    entry::ENTRIES,
    target::{Rewound, Target},
    way::{FAILED, Way, measured},
};
use anyhow::{Context, Result};
use forebay_bench::method::{
    Effort,
    process::program,
    table::{Cell, Table},
};
use std::{
    hint::black_box,
    io::Write,
    process::{Command, Stdio},
};

/// Bytes of the text's buffer.
const BUFFER: usize = 16 << 10;

/// Copies of an entry on the stack: `LATER` uses all of them.
const PLACES: usize = 64;

/// One place, with room for loads beyond an entry.
#[derive(Clone)]
#[repr(align(64))]
struct Place([u8; 64]);

/// A way to copy an entry from `from` to `stack`, and from there, or from `earlier`, to `to`.
trait Copies {
    const NAME: &'static str;
    /// Bytes of an entry, and from entry to entry.
    const BYTES: usize;
    const STRIDE: usize;
    /// What was stored 63 entries ago is loaded.
    const LATER: bool = false;

    /// # Safety
    /// Each pointer has 32 bytes that may be read, the last three also written.
    unsafe fn copy(from: *const u8, stack: *mut u8, earlier: *const u8, to: *mut u8);
}

macro_rules! copies {
    ($name:ident $label:literal $bytes:literal $stride:literal $(later $later:literal)? { $($line:literal)* }) => {
        struct $name;

        impl Copies for $name {
            const NAME: &'static str = $label;
            const BYTES: usize = $bytes;
            const STRIDE: usize = $stride;
            $(const LATER: bool = $later;)?

            #[inline(always)]
            unsafe fn copy(_from: *const u8, _stack: *mut u8, _earlier: *const u8, _to: *mut u8) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: it loads and stores only within the 32 bytes that the caller vouches for.
                unsafe {
                    std::arch::asm!(
                        $($line,)*
                        "/* {from} {stack} {earlier} {to} {n} */",
                        from = in(reg) _from, stack = in(reg) _stack, earlier = in(reg) _earlier, to = in(reg) _to,
                        n = const $bytes, out("xmm0") _, out("rax") _, out("rcx") _, out("rsi") _, out("rdi") _,
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    };
}

copies!(Text28 "the source text's, 28 bytes, hoisted" 28 28 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 12]" "movups [{stack} + 12], xmm0"
    "movups xmm0, [{stack}]" "movups [{to}], xmm0" "movups xmm0, [{stack} + 12]" "movups [{to} + 12], xmm0"
});
copies!(Text32 "the source text's, 32 bytes, hoisted" 32 32 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 16]" "movups [{stack} + 16], xmm0"
    "movups xmm0, [{stack}]" "movups [{to}], xmm0" "movups xmm0, [{stack} + 16]" "movups [{to} + 16], xmm0"
});
copies!(Strided "the source text's, 28 bytes, 32 apart" 28 32 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 12]" "movups [{stack} + 12], xmm0"
    "movups xmm0, [{stack}]" "movups [{to}], xmm0" "movups xmm0, [{stack} + 12]" "movups [{to} + 12], xmm0"
});
copies!(Built28 "the source text's, 28 bytes, built in the loop" 28 28 {
    "xorps xmm0, xmm0" "movups [{to}], xmm0" "movups [{to} + 12], xmm0"
});
copies!(Built32 "the source text's, 32 bytes, built in the loop" 32 32 {
    "xorps xmm0, xmm0" "movups [{to}], xmm0" "movups [{to} + 16], xmm0"
});
copies!(OneStoreEach "variant: 28 bytes, each load from one store" 28 28 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 12]" "movups [{stack} + 12], xmm0"
    "mov rax, [{stack}]" "mov [{to}], rax" "mov eax, [{stack} + 8]" "mov [{to} + 8], eax"
    "movups xmm0, [{stack} + 12]" "movups [{to} + 12], xmm0"
});
copies!(Disjoint "variant: 28 bytes, stores that do not overlap" 28 28 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "mov rax, [{from} + 16]" "mov [{stack} + 16], rax"
    "mov eax, [{from} + 24]" "mov [{stack} + 24], eax"
    "movups xmm0, [{stack}]" "movups [{to}], xmm0" "movups xmm0, [{stack} + 12]" "movups [{to} + 12], xmm0"
});
copies!(Later "variant: 28 bytes, loaded 63 entries later" 28 28 later true {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 12]" "movups [{stack} + 12], xmm0"
    "movups xmm0, [{earlier}]" "movups [{to}], xmm0" "movups xmm0, [{earlier} + 12]" "movups [{to} + 12], xmm0"
});
copies!(Later32 "variant: 32 bytes, loaded 63 entries later" 32 32 later true {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 16]" "movups [{stack} + 16], xmm0"
    "movups xmm0, [{earlier}]" "movups [{to}], xmm0" "movups xmm0, [{earlier} + 16]" "movups [{to} + 16], xmm0"
});
copies!(RepMovsb "variant: 28 bytes, loaded by rep movsb" 28 28 {
    "movups xmm0, [{from}]" "movups [{stack}], xmm0" "movups xmm0, [{from} + 12]" "movups [{stack} + 12], xmm0"
    "mov rsi, {stack}" "mov rdi, {to}" "mov ecx, {n}" "rep movsb"
});

/// The text's buffer, around any way to copy.
struct Appending {
    file: Rewound,
    count: usize,
    entries: Vec<u8>,
}

fn way<C: Copies + 'static>(target: Target, iterations: u64) -> Result<Way> {
    let (file, flushes) = target.open(C::BYTES)?;
    let room = BUFFER / C::BYTES;
    let mut appending = Appending {
        file,
        count: 0,
        entries: vec![0; room * C::STRIDE + 32],
    };
    let work = move || {
        run::<C>(&mut appending, iterations);
        iterations * ENTRIES
    };
    Ok(Way {
        name: C::NAME,
        work: Box::new(work),
        flushes,
    })
}

#[inline(never)]
fn run<C: Copies>(appending: &mut Appending, iterations: u64) {
    let room = BUFFER / C::BYTES;
    assert!(appending.entries.len() >= room * C::STRIDE + 32);
    let entry = black_box(Place([7; _]));
    let mut places = vec![Place([0; _]); PLACES];
    let base = places.as_mut_ptr();
    for _ in 0..iterations {
        for number in 0..ENTRIES as usize {
            let (stack, earlier) = match C::LATER {
                true => (number % PLACES, (number + 1) % PLACES),
                false => (0, 0),
            };
            let to = appending.entries.as_mut_ptr();
            let to = to.wrapping_add(appending.count * C::STRIDE);
            let (stack, earlier) = (base.wrapping_add(stack), base.wrapping_add(earlier));
            // SAFETY: a place has 64 bytes, and the count is below `room`, so 32 bytes follow in `entries`.
            unsafe { C::copy(entry.0.as_ptr(), stack.cast(), earlier.cast(), to) };
            appending.count += 1;
            if appending.count == room {
                appending.flush::<C>();
            }
        }
        appending.flush::<C>();
    }
    black_box(&mut places);
}

impl Appending {
    #[cold]
    #[inline(never)]
    fn flush<C: Copies>(&mut self) {
        // As in the text: with the other stride it writes as many bytes, and so as often.
        let bytes = std::mem::take(&mut self.count) * C::BYTES;
        self.file.write_all(&self.entries[..bytes]).expect(FAILED);
    }
}

/// The compiler's own copies, whose assembly [`ASSEMBLY`] shows.
fn compiled<const N: usize>(
    target: Target,
    name: &'static str,
    append: fn(&mut Buffer<N>, [u8; N]) -> bool,
    iterations: u64,
) -> Result<Way> {
    let (mut file, flushes) = target.open(N)?;
    let mut buffer = Box::new(Buffer {
        count: 0,
        entries: [[0; N]; 585],
    });
    let work = move || {
        let entry = black_box([7; N]);
        for number in 0..iterations * ENTRIES {
            append(&mut buffer, entry);
            if buffer.count == BUFFER / N || (number + 1) % ENTRIES == 0 {
                let count = std::mem::take(&mut buffer.count);
                let bytes = buffer.entries[..count].as_flattened();
                file.write_all(bytes).expect(FAILED);
            }
        }
        iterations * ENTRIES
    };
    Ok(Way {
        name,
        work: Box::new(work),
        flushes,
    })
}

fn ways(target: Target, iterations: u64) -> Result<Vec<Way>> {
    Ok(vec![
        way::<Text28>(target, iterations)?,
        way::<Text32>(target, iterations)?,
        way::<Strided>(target, iterations)?,
        way::<Built28>(target, iterations)?,
        way::<Built32>(target, iterations)?,
        way::<OneStoreEach>(target, iterations)?,
        way::<Disjoint>(target, iterations)?,
        way::<Later>(target, iterations)?,
        way::<Later32>(target, iterations)?,
        way::<RepMovsb>(target, iterations)?,
        compiled(
            target,
            "this compiler's, 28 bytes, hoisted",
            append_28,
            iterations,
        )?,
        compiled(
            target,
            "this compiler's, 32 bytes, hoisted",
            append_32,
            iterations,
        )?,
    ])
}

/// The variants, and the text's to a file; and what llvm-mca makes of the code.
pub fn tables(effort: Effort) -> Result<Vec<Table>> {
    if !cfg!(target_arch = "x86_64") {
        let mut table = Table::new("append/forwarding", &[]);
        table.skipped("all", &anyhow::anyhow!("needs x86-64"));
        return Ok(vec![table]);
    }
    Ok(vec![
        variants(Target::Null, effort)?,
        variants(Target::File, effort)?,
        predicted(),
    ])
}

fn variants(target: Target, effort: Effort) -> Result<Table> {
    let title = format!(
        "append/forwarding, {target}: the text's machine code and variants, a buffer of 16 KiB, an entry"
    );
    let columns = ["ns", "cycles", "flushes in 100,000", "blocked"];
    let mut table = Table::new(title, &columns);
    let ways = ways(target, effort.scaled(20))?;
    measured(ways, effort, &mut table, |_, _| Vec::new())?;
    Ok(table)
}

/// The compiler's assembly of both copies, made when this program was built; empty where that failed.
pub const ASSEMBLY: &str = include_str!(concat!(env!("OUT_DIR"), "/copies.s"));

/// What the text asked llvm-mca, and both copies whole.
const SNIPPETS: [(&str, &str); 4] = [
    (
        "32 bytes: shl, lea",
        "shl $5, %rcx\nlea 200(%rsp,%rcx), %rcx\n",
    ),
    (
        "28 bytes: imul, lea",
        "imul $28, %rcx, %rcx\nlea 192(%rsp,%rcx), %rcx\n",
    ),
    (
        "32 bytes: the whole copy",
        "movups 0x60(%rsp), %xmm0\nmovups %xmm0, 0x80(%rsp)\nmovups 0x70(%rsp), %xmm0\nmovups %xmm0, 0x90(%rsp)\n\
         mov 0xb8(%rsp), %rcx\nshl $5, %rcx\nlea 200(%rsp,%rcx), %rcx\nmovups 0x80(%rsp), %xmm0\nmovups %xmm0, (%rcx)\n\
         movups 0x90(%rsp), %xmm0\nmovups %xmm0, 0x10(%rcx)\nincq 0xb8(%rsp)\n",
    ),
    (
        "28 bytes: the whole copy",
        "movups 0x60(%rsp), %xmm0\nmovups %xmm0, 0x7c(%rsp)\nmovups 0x6c(%rsp), %xmm0\nmovups %xmm0, 0x88(%rsp)\n\
         mov 0xb8(%rsp), %rcx\nimul $28, %rcx, %rcx\nlea 192(%rsp,%rcx), %rcx\nmovups 0x7c(%rsp), %xmm0\nmovups %xmm0, (%rcx)\n\
         movups 0x88(%rsp), %xmm0\nmovups %xmm0, 0xc(%rcx)\nincq 0xb8(%rsp)\n",
    ),
];

fn predicted() -> Table {
    let mut table = Table::new(
        "append/llvm-mca: cycles an iteration as predicted for Skylake, the text's processor",
        &["cycles", "by ports alone"],
    );
    let figures = SNIPPETS.map(|(_, code)| mca(code));
    table.results(SNIPPETS.map(|(name, _)| name), &figures, |figures| {
        figures.map(|figure| Cell::number(figure, 2)).into()
    });
    table.note("llvm-mca knows ports and latencies, and nothing of store forwarding");
    table
}

/// Cycles an iteration, and what the ports alone would allow.
fn mca(code: &str) -> Result<[f64; 2]> {
    const ITERATIONS: f64 = 1000.0;
    let mut command: Command = program("llvm-mca", "llvm")?;
    command.args(["-mtriple=x86_64", "-mcpu=skylake", "-iterations=1000"]);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting llvm-mca")?;
    let mut input = running.stdin.take().context("it has an input")?;
    input.write_all(code.as_bytes()).context("to llvm-mca")?;
    drop(input);
    let output = running.wait_with_output().context("waiting for llvm-mca")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figure = |name: &str| -> Result<f64> {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.with_context(|| format!("llvm-mca gives no {name}"))?;
        Ok(figure.trim().parse()?)
    };
    Ok([
        figure("Total Cycles:")? / ITERATIONS,
        figure("Block RThroughput:")?,
    ])
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn every_variant_flushes_as_often_as_the_text_does_and_copies_the_whole_entry() {
        for mut way in ways(Target::Null, 1).unwrap() {
            let (name, flushes) = (way.name, way.flushes);
            assert_eq!((way.work)(), ENTRIES);
            let (expected, len) = match name.contains("32 bytes") {
                true => (196, 32),
                false => (171, 28),
            };
            assert_eq!(flushes.get(), expected, "{name}");
            assert_eq!(flushes.bytes(), len * ENTRIES, "{name}");
        }
        fn copies<C: Copies>() {
            let from: Place = Place(std::array::from_fn(|i| i as u8));
            let (mut stack, mut to) = (Place(from.0), [0; 32]);
            let stack = stack.0.as_mut_ptr();
            // SAFETY: all of them have 32 bytes.
            unsafe { C::copy(from.0.as_ptr(), stack, stack, to.as_mut_ptr()) };
            assert_eq!(to[..C::BYTES], from.0[..C::BYTES], "{}", C::NAME);
        }
        copies::<Text28>();
        copies::<Text32>();
        copies::<Strided>();
        copies::<OneStoreEach>();
        copies::<Disjoint>();
        copies::<Later>();
        copies::<Later32>();
        copies::<RepMovsb>();
    }

    #[test]
    fn the_compiler_shows_both_copies() {
        assert!(ASSEMBLY.contains("append_28") && ASSEMBLY.contains("append_32"));
    }
}
