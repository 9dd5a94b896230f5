//! Servers as processes, which tests kill and start again: an S3 server (moto) and a NATS server. Both keep what they have stored.

use super::{Outcome, archive, done};
use forebay_testing::{dice::Dice, folder::Folder};
use object_store::{
    ObjectStoreExt,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as ObjectPath,
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// A process that is killed at the end of the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(silent.spawn().unwrap())
    }

    /// Ends it with this signal, and returns its exit code.
    pub fn end(&mut self, signal: &str) -> Option<i32> {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on a port of this machine.
pub struct Server {
    command: Command,
    pub port: u16,
    running: Option<Running>,
    /// The requests that fail, in the form of `store.py`.
    faults: String,
}

/// A port that no connection uses by itself: the kernel takes those from 32768 on.
fn free_port() -> u16 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut dice = Dice(u64::from(std::process::id()) << 20 | CALLS.fetch_add(1, Relaxed));
    loop {
        let port = 20_000 + dice.below(12_000_u16);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    /// An S3 server whose objects outlive it. It does not run yet.
    pub fn store(python: &Path, folder: &Folder) -> Server {
        let port = free_port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/store.py");
        let mut command = Command::new(python);
        command.args([script, &folder.path("journal"), &port.to_string()]);
        Server {
            command,
            port,
            running: None,
            faults: folder.path("journal.faults"),
        }
    }

    /// A NATS server with JetStream. It does not run yet. `options` are more arguments.
    pub fn nats(python: &Path, folder: &Folder, options: &[&str]) -> Server {
        let port = free_port();
        let mut command = Command::new(python.with_file_name("nats-server"));
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]);
        command.arg(folder.path("jetstream")).args(options);
        Server {
            command,
            port,
            running: None,
            faults: folder.path("journal.faults"),
        }
    }

    /// Starts it, and waits until it accepts connections.
    pub fn start(&mut self) {
        let running = self.running.insert(Running::start(&mut self.command));
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                running.0.try_wait().unwrap().is_none(),
                "{:?} ended",
                self.command
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Which requests fail from now on: `STATUS EVERY TEXT` means each EVERY-th request whose address contains TEXT.
    pub fn fail(&self, which: &str) {
        fs::write(&self.faults, which).unwrap();
    }

    /// From its next start on, its clock differs by this number of seconds.
    pub fn set_clock(&mut self, seconds: &str) {
        self.command.env("STORE_CLOCK", seconds);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.running = None;
    }
}

/// `forebay-archive` with the settings of an object store at this address.
pub fn with_store(endpoint: &str, args: &[&str]) -> Command {
    let mut command = archive(args);
    command
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

/// The bucket of a store at this address, with these keys.
pub fn bucket(endpoint: &str, [id, secret]: [&str; 2]) -> AmazonS3 {
    let builder = AmazonS3Builder::new().with_endpoint(endpoint);
    let builder = builder.with_allow_http(true).with_region("us-east-1");
    let builder = builder
        .with_access_key_id(id)
        .with_secret_access_key(secret);
    builder.with_bucket_name("captures").build().unwrap()
}

/// An archive in an object store, and a queue of announcements.
pub struct Fleet {
    pub store: Server,
    pub nats: Server,
    pub folder: Folder,
}

/// The archive of a [`Fleet`].
pub const TO: &str = "s3://captures/lab";

impl Fleet {
    pub fn new(python: &Path) -> Fleet {
        let folder = Folder::new();
        Fleet {
            store: Server::store(python, &folder),
            nats: Server::nats(python, &folder, &[]),
            folder,
        }
    }

    /// Starts both servers, and creates the bucket.
    pub fn start(&mut self) {
        self.nats.start();
        self.start_store();
    }

    /// Starts the store alone, and creates the bucket.
    pub fn start_store(&mut self) {
        self.store.start();
        let bucket = format!("{}/captures", self.endpoint());
        let mut made = Command::new("curl");
        made.args(["-fsS", "-X", "PUT", &bucket]);
        assert!(made.status().unwrap().success());
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.store.port)
    }

    /// `forebay-archive` with the settings of the object store.
    pub fn command(&self, args: &[&str]) -> Command {
        with_store(&self.endpoint(), args)
    }

    /// Runs it with these arguments.
    pub fn run(&self, args: &[&str]) -> Outcome {
        done(self.command(args).output().unwrap())
    }

    /// The keys of all segments.
    pub fn segments(&self) -> Vec<String> {
        self.keys("segments")
    }

    /// The keys in this folder of the archive.
    pub fn keys(&self, folder: &str) -> Vec<String> {
        let list = format!("captures?list-type=2&prefix=lab/{folder}/");
        let list = format!("{}/{list}", self.endpoint());
        let list = Command::new("curl").args(["-fsS", &list]).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let keys = list.split("<Key>").skip(1);
        let keys = keys.map(|it| it.split('<').next().unwrap());
        keys.map(|it| it.strip_prefix("lab/").unwrap().to_owned())
            .collect()
    }

    pub fn get(&self, key: &str) -> Vec<u8> {
        let (bucket, path) = (self.bucket(), ObjectPath::from(format!("lab/{key}")));
        let got = async { bucket.get(&path).await?.bytes().await };
        super::runtime().block_on(got).unwrap().to_vec()
    }

    /// Replaces an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let path = ObjectPath::from(format!("lab/{key}"));
        let put = async { self.bucket().put(&path, bytes.to_vec().into()).await };
        super::runtime().block_on(put).unwrap();
    }

    pub fn delete(&self, key: &str) {
        let path = ObjectPath::from(format!("lab/{key}"));
        let deleted = async { self.bucket().delete(&path).await };
        super::runtime().block_on(deleted).unwrap();
    }

    fn bucket(&self) -> AmazonS3 {
        bucket(&self.endpoint(), ["key", "secret"])
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.nats.port)
    }

    /// The spool of a sensor, which is made.
    pub fn spool(&self, sensor: &str) -> String {
        super::spool(&self.folder, &format!("spool-{sensor}"))
    }

    /// A `ship` that announces.
    pub fn ship(&self, sensor: &str, more: &[&str]) -> Command {
        let (spool, url) = (self.spool(sensor), self.url());
        let args = ["ship", &spool, TO, "--sensor", sensor, "--announce", &url];
        self.command(&[&args, more].concat())
    }

    /// An indexer that waits a short time for everything.
    pub fn index(&self, more: &[&str]) -> Command {
        let url = self.url();
        let args = ["index", TO, "--from", &url];
        let times = ["--wait", "1s", "--take-over", "3s"];
        self.command(&[&args[..], &times, more].concat())
    }
}
