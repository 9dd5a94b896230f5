//! Zstandard, decompressed by the reference library.

use super::decompressor::{Decompressor, Failed, Progress};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

const MAX_WINDOW_LOG2: u32 = 27;

pub(super) struct Zstd(DCtx<'static>);

impl Zstd {
    pub fn new() -> Result<Self, Failed> {
        let mut context = DCtx::create();
        let limit = DParameter::WindowLogMax(MAX_WINDOW_LOG2);
        match context.set_parameter(limit) {
            Ok(_) => Ok(Zstd(context)),
            Err(code) => Err(Failed::Data(get_error_name(code).to_lowercase())),
        }
    }
}

impl Decompressor for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        offset: u64,
        _is_inside: bool,
    ) -> Result<Progress, Failed> {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(output);
        let hint = self.0.decompress_stream(&mut output, &mut input);
        let hint = hint.map_err(|code| {
            let why = get_error_name(code).to_lowercase();
            match why.contains("too much memory") {
                true => Failed::Data(
                    "was compressed with a window above 128 MiB, decompress it with `zstd -d --long=31`".into(),
                ),
                false => Failed::at("zstd", &format!("is damaged ({why})"), offset),
            }
        })?;
        Ok(Progress {
            read: input.pos(),
            written: output.pos(),
            is_inside: hint != 0,
        })
    }
}
