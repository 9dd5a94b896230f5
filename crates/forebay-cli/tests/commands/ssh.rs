//! Captures on another machine, through ssh: a server on the loopback interface of a network namespace.

use crate::support::*;
use forebay_testing::lab::{self, have};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

const PORT: u16 = 2022;

/// A running server, with the keys of a client, and programs called ssh and forebay.
struct Server {
    folder: Folder,
    sshd: Child,
}

impl Server {
    fn start() -> Server {
        let folder = Folder::new();
        let path = |name: &str| folder.path(name);
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(path("user.pub"), path("authorized")).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        for folder in ["there", "here"] {
            fs::create_dir(path(folder)).unwrap();
        }
        symlink(FOREBAY, path("there/forebay")).unwrap();
        let config = format!(
            "ListenAddress 127.0.0.1:{PORT}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nSetEnv PATH={}:/usr/sbin:/usr/bin:/sbin:/bin\n",
            path("host"),
            path("authorized"),
            path("there"),
        );
        let config = folder.file("sshd_config", config);
        let client = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking no\nLogLevel ERROR\nBatchMode yes\n",
            path("user"),
            path("known"),
        );
        let client = folder.file("ssh_config", client);
        // Copied by another program: a file that a child of another test has open for writing cannot be executed.
        let ssh = folder.file(
            "ssh",
            format!("#!/bin/sh\nexec /usr/bin/ssh -F {client} \"$@\"\n"),
        );
        set_mode(&ssh, 0o755);
        tool_output(format!("cp -p {ssh} {}", path("here/ssh")));
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f", &config]).stderr(Stdio::null());
        let sshd = sshd.spawn().unwrap();
        wait_until(|| std::net::TcpStream::connect(("127.0.0.1", PORT)).is_ok());
        Server { folder, sshd }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command(line);
        let here = self.folder.path("here");
        command.env("PATH", format!("{here}:{}", std::env::var("PATH").unwrap()));
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

fn with_server(body: impl FnOnce(&Server) + Send) {
    if !Path::new("/usr/sbin/sshd").exists() || !have("ssh-keygen") {
        return children::skip("openssh-server");
    }
    lab::lab(&["ssh"], || {
        body(&Server::start());
    });
}

/// Captures in the namespace of this thread.
fn packet_sockets() -> usize {
    let list = fs::read_to_string("/proc/thread-self/net/packet");
    list.unwrap().lines().count() - 1
}

#[test]
fn packets_of_another_machine_arrive_with_its_counts() {
    with_server(|server| {
        let path = |name: &str| server.folder.path(name);
        for program in ["forebay", "tcpdump"] {
            let file = path(program);
            let line = format!(
                "capture -i ssh:root@127.0.0.1:{PORT}/va,with={program} -w {file} --json udp port 9"
            );
            let child = piped(&mut server.command(&line));
            // The file begins when the capture there has described its interface.
            wait_until(|| packet_sockets() > 0 && fs::exists(&file).unwrap());
            run!("generate rate=10kpps,size=64,count=2k -i vb -q").succeeds();
            run!("generate rate=10kpps,size=64,count=500 -i lo -q").succeeds();
            wait_until(|| file_len(&file) > 2000 * 60);
            let output = stopped(child);
            let json = output.keeps_the_law();
            // After the numbered frames, a few close the stream.
            assert!(
                (2000..=2010).contains(&json["written"].as_u64().unwrap()),
                "{json}"
            );
            let known = if program == "forebay" {
                0.into()
            } else {
                serde_json::Value::Null
            };
            assert_eq!(json["dropped"]["kernel"], known, "{json}");
            run!("verify -r {file}").succeeds();
            wait_until(|| packet_sockets() == 0);
        }
    });
}

#[test]
fn packets_of_its_own_connection_are_left_out_and_a_quiet_capture_ends() {
    with_server(|server| {
        let line = format!(
            "capture -i ssh:root@127.0.0.1:{PORT}/lo -w {} --json",
            server.folder.path("a.pcapng")
        );
        let child = piped(&mut server.command(&line));
        wait_until(|| packet_sockets() > 0);
        // It would see the packets that carry these.
        run!("generate rate=100pps,size=64,count=50 -i lo -q").succeeds();
        let output = stopped(child);
        let json = output.keeps_the_law();
        assert!(json["written"].as_u64().unwrap() <= 110, "{json}");
        wait_until(|| packet_sockets() == 0);
    });
}

#[test]
fn an_error_there_is_one_here() {
    with_server(|server| {
        let from = |source: &str| server.run(&format!("capture -i ssh:{source} -c 1 -q"));
        let host = format!("root@127.0.0.1:{PORT}");
        from(&format!("{host}/eth7")).fails(1, "the capture there has failed");
        from("root@127.0.0.1:1/eth0").fails(1, "ssh cannot connect");
        fs::remove_file(server.folder.path("there/forebay")).unwrap();
        from(&format!("{host}/va")).fails(1, "is not installed there");
        from("-oProxyCommand=id/eth0").fails(2, "is no name of a host");
        server
            .run(&format!("capture -i ssh:{host}/va -c 1 not an expression"))
            .fails(2, "filter");
    });
}

#[test]
fn no_word_of_a_user_runs_there() {
    with_server(|server| {
        let proof = server.folder.path("proof");
        let host = format!("ssh:root@127.0.0.1:{PORT}");
        for hostile in [
            format!("'; touch {proof}; '"),
            format!("$(touch {proof})"),
            format!("`touch {proof}`"),
            format!("| touch {proof}"),
        ] {
            let mut command = server.command("capture -c 1 -q");
            command.arg("-i").arg(format!("{host}/{hostile}"));
            assert_ne!(command.output().unwrap().status.code(), Some(0));
            // Names of hosts may be looked up in a filter, which no character of these can begin.
            let mut command = server.command(&format!("capture -i {host}/va -c 1 -q"));
            command.arg(&hostile).output().unwrap().fails(2, "filter");
        }
        assert!(!Path::new(&proof).exists());
    });
}

#[test]
fn wireshark_captures_from_another_machine() {
    with_server(|server| {
        let fifo = server.folder.path("f");
        mkfifo(&fifo);
        let settings = format!(
            "--remote-host 127.0.0.1 --remote-port {PORT} --remote-user root --remote-interface sim:rate=1kpps"
        );
        let line = format!(
            "--capture --extcap-interface forebay-ssh {settings} --fifo {fifo} --extcap-capture-filter udp"
        );
        let child = piped(&mut server.command(&line));
        let read = run!("capture -r {fifo} -c 20 --count");
        assert_eq!(read.succeeds().text(), "20 packets\n");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.succeeds().log(), "");
        server
            .run("--extcap-interface forebay-ssh --capture --fifo x")
            .fails(2, "--remote-host");
    });
}

#[test]
fn the_ring_there_has_the_size_of_the_flag_or_is_left_to_the_program() {
    let folder = Folder::new();
    let ssh = folder.file("ssh", "#!/bin/sh\nprintf '%s\\n' \"$@\" >&2\nexit 255\n");
    set_mode(ssh, 0o755);
    for (flags, has) in [("-c 1", false), ("-c 1 -B 8M", true)] {
        let mut command = command(&format!("capture -i ssh:h/eth0 {flags} -w -"));
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", folder.path("")));
        let output = command.output().unwrap();
        contains(output.log(), "'-i' 'eth0'");
        assert_eq!(
            output.log().contains("'-B' '8192'"),
            has,
            "{}",
            output.log()
        );
        assert_eq!(output.log().contains("'-B'"), has);
    }
}
