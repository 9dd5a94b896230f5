//! Opens the ports of a request, drops privileges, and enters the sandbox.

use super::Request;
use crate::{
    control::place,
    output, privileges,
    sandbox::{self, Needs, Sandbox},
    shares,
    usage::refuse,
};
use anyhow::Result;
use forebay::store;
use forebay_net::{
    filter::View,
    open::{self, Name, Opening},
    port::{LinkType, Port},
};
use rustix::process::Pid;
use std::{os::unix::fs::MetadataExt, path::Path};

/// The bits of a mode with which other users can read, and all can write.
const OF_OTHERS: u32 = 0o044;
const OF_ALL: u32 = 0o002;

impl Request {
    /// Opens all ports. After opening the interfaces and connecting to shares, drops what only they need and enters the sandbox.
    /// Files are opened, and shares read, in it.
    pub fn open_ports(&self, helper: Option<Pid>) -> Result<(Vec<Box<dyn Port>>, Sandbox)> {
        let begun = match (&self.threading, &self.names[..]) {
            (Some(it), [name]) => {
                open::begin_members(name, &self.options, &self.clock, it.threads, it.fanout)?
            }
            _ => open::begin(&self.names, &self.options, &self.clock)?,
        };
        privileges::shed(self.user.as_ref())?;
        shares::look_up_owners(&begun);
        if let Some(path) = self.only_file() {
            store::refuse_written(path)?;
        }
        self.create_output();
        self.warn_of_other_readers();
        let sandbox = self.enter_sandbox(helper);
        let ports = begun.into_iter().map(Opening::finish);
        let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
        if let Some(user) = &self.user {
            user.assume()?;
        }
        let opens_more = self.write.is_some() || self.recorder.is_some();
        if !opens_more && self.watched.metrics_file.is_none() {
            privileges::drop_files()?;
        }
        self.refuse_other_link_types(&ports)?;
        Ok((ports, sandbox))
    }

    /// Creates the only output file, so that the sandbox can allow this file instead of its folder. Not with files, shares, `-y` and
    /// `--keep-free`, which may still fail, nor with `-Z`, whose user shall own the file.
    fn create_output(&self) {
        let is_open = |name: &Name| matches!(name, Name::Sim(_) | Name::Interface(_));
        if !self.names.iter().all(is_open) || self.link_type.is_some() {
            return;
        }
        if let Some(path) = self.only_file()
            && self.user.is_none()
            && self.keep_free.is_none()
        {
            sandbox::create_output(path);
        }
    }

    /// The output, if it is one file with this name.
    fn only_file(&self) -> Option<&Path> {
        let makes_names = self.rotation.is_some() || self.recorder.is_some() || self.writes_each();
        let path = self.write.as_deref();
        path.filter(|_| !makes_names && !self.writes_stdout())
    }

    /// A file that exists keeps its mode and its owner.
    fn warn_of_other_readers(&self) {
        let Some(path) = self.only_file() else { return };
        // Of `/dev/stdout`, the file that it leads to.
        let Ok(path) = path.canonicalize() else {
            return;
        };
        let Ok(about) = path.metadata() else { return };
        let (mode, owner, path) = (about.mode() & 0o777, about.uid(), path.display());
        let is_ours = owner == rustix::process::geteuid().as_raw();
        if !about.is_file() || is_ours && mode & OF_ALL != 0 {
            return; // one of ours that all may write gets another mode
        }
        if mode & OF_OTHERS != 0 {
            output::note_wrapped(format_args!(
                "warning: {path} exists, and keeps its mode {mode:03o}: the captured packets are readable for other users. To change that: chmod 600 {path}"
            ));
        } else if !is_ours && self.user.is_none() {
            output::note_wrapped(format_args!(
                "warning: {path} exists, and belongs to another user (number {owner}), to whom the captured packets are readable"
            ));
        }
    }

    /// Before the first file is read; afterwards no interface can be opened. `helper` is the process group of `-z`.
    fn enter_sandbox(&self, helper: Option<Pid>) -> Sandbox {
        let needs = Needs {
            readers: self.share_name().is_some(),
            identity: self.user.is_some(),
            helper,
            pins: self
                .threading
                .as_ref()
                .is_some_and(|it| !it.cpus.is_empty()),
            ..Needs::default()
        };
        let needs = needs.reading(self.names.iter().filter_map(Name::file));
        let needs = match (&self.rotation, &self.write) {
            (Some(rotation), _) => needs.writing_beside(&rotation.path),
            (None, Some(path)) if self.recorder.is_some() || self.writes_each() => {
                needs.writing_beside(path)
            }
            (None, Some(path)) if !self.writes_stdout() => needs.writing(path),
            _ => needs,
        };
        let needs = match &self.watched.metrics_file {
            Some(path) => needs.writing_beside(path),
            None => needs,
        };
        // It was bound before, so it has a path.
        let control = self.watched.control.as_deref();
        let needs = match control.map(place::path_of) {
            Some(Ok(path)) => needs.removing(&path),
            _ => needs,
        };
        sandbox::enter(&self.sandbox, &needs)
    }

    /// `-y`: the kernel offers one link type for each interface, and no other.
    fn refuse_other_link_types(&self, ports: &[Box<dyn Port>]) -> Result<()> {
        let Some(wanted) = &self.link_type else {
            return Ok(());
        };
        for port in ports {
            let mut types: Vec<String> = Vec::new();
            for interface in port.interfaces() {
                let number = || interface.link.0.to_string();
                let name = (interface.link.names()).map_or_else(number, |(name, _)| name.into());
                if !types.contains(&name) {
                    types.push(name);
                }
            }
            if types.iter().any(|it| it != wanted) {
                let have = match &types[..] {
                    [one] => format!("has packets of the type {one} only"),
                    _ => format!("has the link types {}", types.join(", ")),
                };
                let name = port.name();
                return refuse(format!("-y {wanted}: {name} {have}. Leave -y out"));
            }
        }
        Ok(())
    }

    /// `-L`: the link types of all interfaces and files.
    pub fn link_types(&self) -> Result<String> {
        let mut text = String::new();
        let mut is_inside = false;
        for name in &self.names {
            if !name.is_live() && !is_inside {
                self.enter_sandbox(None);
                is_inside = true;
            }
            let shown = match name.interface() {
                Some(interface) => interface.to_owned(),
                None => name.to_string(),
            };
            let (link, _) = open::link_of(name)?;
            text += &format!("Data link types for {shown} (use option -y to set):\n  {link}\n");
        }
        Ok(text)
    }

    /// The link type that a filter for the first port is compiled for; Ethernet if there is no port.
    pub fn link_of_first_port(&self) -> Result<(LinkType, View)> {
        match self.names.first() {
            None => Ok((LinkType::ETHERNET, View::Packet)),
            Some(name) => {
                if !name.is_live() {
                    self.enter_sandbox(None);
                }
                Ok(open::link_of(name)?)
            }
        }
    }
}
