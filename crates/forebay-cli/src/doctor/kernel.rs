//! What the kernel offers.

use super::finding::{Finding, Findings, State};
use crate::output::counted;
use forebay_net::units;
use rustix::fs::MemfdFlags;
use std::thread::available_parallelism;

/// Available memory below which the buffers of a capture have no room to grow.
const FEW_MEMORY: u64 = 256 << 20;

pub fn check() -> Vec<Finding> {
    let mut found = Findings::about("kernel");
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let processors = available_parallelism().map_or(1, usize::from);
    let processors = counted(processors as u64, "processor", "processors");
    found.fine(format!("Linux {release}, {processors}"));
    match rustix::fs::memfd_create("forebay-doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => found.fine("buffers can be mapped (memfd_create)"),
        Err(error) => found.put(
            State::Loss,
            format!("buffers cannot be mapped: memfd_create: {error}"),
            None,
        ),
    }
    memory(&mut found);
    let pages = "/sys/kernel/mm/transparent_hugepage/";
    let huge = ["enabled", "shmem_enabled"].map(|name| read(&format!("{pages}{name}")));
    match huge {
        [Some(one), Some(other)] => found.fine(format!(
            "huge pages: {}, in shared memory: {}",
            chosen(&one),
            chosen(&other)
        )),
        _ => found.note("no huge pages: buffers need more of the processor's address cache"),
    }
    setting(
        &mut found,
        "fs.protected_symlinks",
        "others can redirect files in folders such as /tmp",
    );
    // Only root can read it.
    setting(
        &mut found,
        "net.core.bpf_jit_enable",
        "filters run in the kernel's interpreter, which is slow",
    );
    found.list
}

fn memory(found: &mut Findings) {
    let report = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    match kib.map(|kib| kib * 1024) {
        Some(bytes) => {
            let [all, quarter] = [1.0, 4.0].map(|by| units::scaled_binary(bytes as f64 / by));
            let text = format!(
                "{all}B of memory are available; buffers may grow to {quarter}B (--store-limit)"
            );
            found.put(State::loss_if(bytes < FEW_MEMORY), text, None);
        }
        None => found.note("the available memory is unknown: buffers do not grow"),
    }
}

/// The word in brackets, which is the choice in force.
fn chosen(text: &str) -> &str {
    let word = text
        .split('[')
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    word.unwrap_or(text)
}

/// A switch that should be on.
fn setting(found: &mut Findings, name: &str, otherwise: &str) {
    match read(&format!("/proc/sys/{}", name.replace('.', "/"))).as_deref() {
        Some("0") => found.put(
            State::Note,
            format!("{name} is 0: {otherwise}"),
            Some(format!("sudo sysctl {name}=1")),
        ),
        Some(value) => found.fine(format!("{name} is {value}")),
        None => {}
    }
}

/// The first line of a small file of the kernel.
fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}
