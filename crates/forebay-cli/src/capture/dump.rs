//! `-d`, `-dd`, `-ddd`: prints the BPF program of a filter in tcpdump's formats.

use super::request::Request;
use crate::output::answer;
use crate::usage::refuse;
use anyhow::Result;
use forebay_net::filter::Filter;
use std::process::ExitCode;

/// Prints the program for the first port. `form` counts the letters.
pub fn print(request: &Request, form: u8) -> Result<ExitCode> {
    let everything = || "".parse::<Filter>();
    let filter = match &request.session.filter {
        Some(filter) => filter.clone(),
        None => everything()?,
    };
    let (link, view) = request.link_of_first_port()?;
    let program = match filter.compile(link, view, request.session.snaplen) {
        Ok(program) => program,
        Err(error) => return refuse(error.to_string()),
    };
    let text = match form {
        1 => program.listing().to_string(),
        2 => program.array().to_string(),
        _ => program.numbers().to_string(),
    };
    answer(&text)?;
    Ok(ExitCode::SUCCESS)
}
