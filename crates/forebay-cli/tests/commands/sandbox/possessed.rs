//! Makes the threads of another process call the system, as code would that was smuggled into it.
//!
//! All threads are stopped (`ptrace(2)`). Each call is made by setting the registers of one thread to an instruction that calls
//! the system. A thread that waits in the kernel has just executed one. At the end all threads continue where they were.

use nix::{
    errno::Errno,
    libc::user_regs_struct as Registers,
    sys::{
        ptrace,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use std::{fs, process::Child, thread::sleep, time::Duration};

/// `syscall`, as the processor reads it.
const SYSCALL: i64 = 0x050f;
/// Bytes below the stack that compilers may use without notice.
const RED_ZONE: u64 = 128;

pub struct Possessed {
    threads: Vec<(Pid, Registers)>,
    /// The address of an instruction that calls the system.
    instruction: u64,
}

/// An argument of a call.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    Number(u64),
    /// The address of these bytes and a zero.
    Text(&'a str),
    /// The address of this many zeros.
    Zeros(usize),
}

impl From<i32> for Argument<'_> {
    fn from(number: i32) -> Self {
        Argument::Number(i64::from(number).cast_unsigned())
    }
}

impl<'a> From<&'a str> for Argument<'a> {
    fn from(text: &'a str) -> Self {
        Argument::Text(text)
    }
}

pub fn threads(child: &Child) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let names = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.parse().unwrap()).collect()
}

impl Possessed {
    /// Stops all threads, at a moment when one of them waits in the kernel.
    pub fn new(child: &Child) -> Self {
        loop {
            let mut possessed = Possessed {
                threads: Vec::new(),
                instruction: 0,
            };
            for thread in self::threads(child) {
                let thread = Pid::from_raw(thread);
                match ptrace::attach(thread) {
                    Err(Errno::ESRCH) => continue, // it has ended meanwhile
                    attached => attached.unwrap(),
                }
                if !stops(thread) {
                    continue; // it was about to end
                }
                let registers = ptrace::getregs(thread).unwrap();
                possessed.threads.push((thread, registers));
            }
            let found = possessed.threads.iter().find_map(|&(thread, registers)| {
                let before = registers.rip - 2;
                let bytes = ptrace::read(thread, before as *mut _).ok()?;
                (bytes & 0xffff == SYSCALL).then_some(before)
            });
            if let Some(instruction) = found {
                possessed.instruction = instruction;
                return possessed;
            }
            drop(possessed);
            sleep(Duration::from_millis(1));
        }
    }

    /// What the call with this number returns in each thread.
    pub fn call<const N: usize>(&self, number: i64, arguments: [Argument<'_>; N]) -> Vec<i64> {
        let each = self.threads.iter();
        each.map(|thread| self.call_in(thread, number, arguments))
            .collect()
    }

    fn call_in<const N: usize>(
        &self,
        &(thread, mut registers): &(Pid, Registers),
        number: i64,
        arguments: [Argument<'_>; N],
    ) -> i64 {
        let mut free = registers.rsp - RED_ZONE;
        let mut values = [0; 6];
        for (value, argument) in values.iter_mut().zip(arguments) {
            let mut bytes = match argument {
                Argument::Number(number) => {
                    *value = number;
                    continue;
                }
                Argument::Text(text) => [text.as_bytes(), b"\0"].concat(),
                Argument::Zeros(count) => vec![0; count],
            };
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            free = (free - bytes.len() as u64) & !15;
            *value = free;
            for (at, word) in (free..).step_by(8).zip(bytes.chunks(8)) {
                let word = i64::from_ne_bytes(word.try_into().unwrap());
                ptrace::write(thread, at as *mut _, word).unwrap();
            }
        }
        registers.rip = self.instruction;
        registers.rsp = free;
        registers.rax = number.cast_unsigned();
        // No call that the kernel would start again.
        registers.orig_rax = u64::MAX;
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ] = values;
        ptrace::setregs(thread, registers).unwrap();
        ptrace::step(thread, None).unwrap();
        assert!(stops(thread), "{number}: {thread} has ended");
        ptrace::getregs(thread).unwrap().rax.cast_signed()
    }
}

impl Drop for Possessed {
    fn drop(&mut self) {
        for &(thread, registers) in &self.threads {
            let _ = ptrace::setregs(thread, registers);
            let _ = ptrace::detach(thread, None);
        }
    }
}

/// Waits until the thread stops; false if it ends instead.
fn stops(thread: Pid) -> bool {
    match waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap() {
        WaitStatus::Stopped(..) => true,
        WaitStatus::Exited(..) => false,
        other => panic!("{other:?}"),
    }
}
