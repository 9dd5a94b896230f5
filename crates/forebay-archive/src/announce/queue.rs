//! The stream of announcements: connecting, announcing, and taking messages from it.

use super::Announcement;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use async_nats::{
    Client, ConnectOptions, HeaderMap, ServerAddr,
    connection::State,
    jetstream::{
        self, AckKind, Context,
        consumer::{Consumer, pull},
        context::GetStreamErrorKind,
        message::PublishMessage,
        stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream},
    },
    rustls::crypto::ring,
};
use futures::StreamExt;
use std::{fmt, fs, path::Path, str::FromStr, time::Duration};
use url::Url;

/// The name of the consumer that all indexers share.
const CONSUMER: &str = "indexers";
/// The server forgets the identities of messages after this time. An announcement repeated later is delivered twice.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);
/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that indexers may hold without having answered them.
const MAX_HELD: i64 = 10_000;

/// A server and the name of a stream: `nats://[USER[:PASSWORD]@]HOST[:PORT][/NAME]`, or `tls://…`.
///
/// A user without a password is a token. The printed form has no credentials.
///
/// ```
/// use forebay_archive::announce::Address;
/// let address: Address = "nats://ship:secret@queue.example/site-a".parse()?;
/// assert_eq!(address.to_string(), "nats://queue.example:4222/site-a");
/// assert!("http://queue.example".parse::<Address>().is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone)]
pub struct Address {
    /// The server, without credentials.
    server: ServerAddr,
    /// The name of the stream.
    name: String,
    login: Option<Login>,
}

#[derive(Clone)]
enum Login {
    Token(String),
    User(String, String),
}

impl Login {
    fn of(user: &str, password: Option<&str>) -> Login {
        match password {
            Some(password) => Login::User(user.into(), password.into()),
            None => Login::Token(user.into()),
        }
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Address> {
        // The text may contain a password, so no error repeats it.
        let form = "write nats://HOST:PORT, nats://USER:PASSWORD@HOST:PORT/NAME or tls://…";
        let mut url = Url::parse(text).map_err(|error| anyhow!("is no URL ({error}): {form}"))?;
        ensure!(
            ["nats", "tls"].contains(&url.scheme()) && url.host().is_some(),
            "is no address of a NATS server: {form}"
        );
        ensure!(
            url.query().is_none() && url.fragment().is_none(),
            "has something after the name of the stream: {form}"
        );
        let name = match url.path().trim_matches('/') {
            "" => "forebay".to_owned(),
            name => name.to_owned(),
        };
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        ensure!(
            name.len() <= 64 && name.bytes().all(is_allowed),
            "has a name of a stream with other characters. Use up to 64 letters, digits, dashes and underscores"
        );
        let plain = |text: &str| {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
            decoded.map(|it| it.into_owned())
        };
        let user = plain(url.username()).context("has a malformed user")?;
        let password = url.password().map(plain).transpose();
        let password = password.context("has a malformed password")?;
        let login = match (user.is_empty(), password) {
            (true, None) => None,
            (_, password) => Some(Login::of(&user, password.as_deref())),
        };
        let port = url.port().unwrap_or(4222);
        let cleared = url
            .set_username("")
            .and_then(|()| url.set_password(None))
            .and_then(|()| url.set_port(Some(port)));
        cleared.map_err(|()| anyhow!("is no address of a NATS server: {form}"))?;
        url.set_path("");
        Ok(Address {
            server: ServerAddr::from_url(url).context("is no address of a NATS server")?,
            name,
            login,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server.as_url_str(), self.name)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Address {
    /// The same server with the credentials of a file: `USER:PASSWORD`, or a token. Space around them is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or has something else.
    pub fn with_credentials(self, file: &Path) -> Result<Address> {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("{name}: reading it"))?;
        let text = text.trim();
        ensure!(
            !text.is_empty() && text.lines().count() == 1,
            "{name}: write one line, USER:PASSWORD or a token. JWTs and NKeys are not supported"
        );
        let login = match text.split_once(':') {
            Some((user, password)) => Login::of(user, Some(password)),
            None => Login::of(text, None),
        };
        Ok(Address {
            login: Some(login),
            ..self
        })
    }

    fn subject(&self) -> String {
        format!("{}.segments", self.name)
    }
}

/// The stream of announcements of an address. It connects when it is used, and again after a failure.
#[derive(Debug)]
pub struct Queue {
    address: Address,
    connected: Option<Connected>,
}

#[derive(Debug)]
struct Connected {
    client: Client,
    context: Context,
    stream: Stream,
    consumer: Option<Consumer<pull::Config>>,
}

impl Queue {
    /// The queue at an address.
    pub fn new(address: Address) -> Queue {
        Queue {
            address,
            connected: None,
        }
    }

    /// Announces a segment, and waits until the server has stored the message.
    ///
    /// # Errors
    /// The server failed. The message may have been stored all the same: announce it again.
    pub async fn announce(&mut self, announced: &Announcement) -> Result<()> {
        let (subject, address) = (self.address.subject(), self.address.clone());
        let message = PublishMessage::build()
            .message_id(&announced.segment)
            .expected_stream(&address.name)
            .payload(announced.encode().into());
        let context = &self.connected().await?.context;
        let stored = async { context.send_publish(subject, message).await?.await };
        let what = || format!("{address}: announcing {}", announced.segment);
        stored.await.map_err(innermost).with_context(what)?;
        Ok(())
    }

    /// Takes messages until there are `max`, or `wait` has passed, and appends them to `taken`. If the future is dropped, `taken` has
    /// what was received. The server delivers messages again that are not answered within `hold`.
    ///
    /// # Errors
    /// The server failed.
    pub async fn take(
        &mut self,
        max: usize,
        wait: Duration,
        hold: Duration,
        taken: &mut Vec<Taken>,
    ) -> Result<()> {
        let address = self.address.clone();
        let what = || format!("{address}: asking for messages");
        let consumer = self.consumer(hold).await?;
        let request = consumer.batch().max_messages(max).expires(wait).messages();
        let mut messages = request.await.map_err(innermost).with_context(what)?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| innermost(&*error));
            taken.push(Taken::of(message.with_context(what)?)?);
        }
        Ok(())
    }

    /// The number of messages that are not acknowledged: those that wait, and those that indexers hold.
    ///
    /// # Errors
    /// The server failed.
    pub async fn left(&mut self, hold: Duration) -> Result<u64> {
        let address = self.address.clone();
        let info = self.consumer(hold).await?.get_info().await;
        let info = info
            .map_err(innermost)
            .with_context(|| format!("{address}: asking how much waits"))?;
        Ok(info.num_pending + info.num_ack_pending as u64)
    }

    /// Stores a message in the stream `NAME-failed`, with the reason in the header `Forebay-Reason`, and then removes it from the
    /// stream of announcements.
    ///
    /// # Errors
    /// The server failed; the message is delivered again.
    pub async fn set_aside(&mut self, taken: &Taken, reason: &str) -> Result<()> {
        let name = format!("{}-failed", self.address.name);
        let subject = format!("{}.failed", self.address.name);
        let address = self.address.clone();
        let what = || format!("{address}: setting a message aside in the stream {name}");
        let mut headers = HeaderMap::new();
        // Headers are lines.
        let reason: String = reason
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .collect();
        headers.insert("Forebay-Reason", reason);
        let message = PublishMessage::build()
            .headers(headers)
            .message_id(format!("{}-{}", self.address.name, taken.number))
            .expected_stream(&name)
            .payload(taken.payload().to_vec().into());
        let context = &self.connected().await?.context;
        let config = Config {
            name: name.clone(),
            subjects: vec![subject.clone()],
            description: Some("Announcements that could not be indexed, with the reason".into()),
            storage: StorageType::File,
            ..Config::default()
        };
        stream(context, config).await.with_context(what)?;
        let stored = async { context.send_publish(subject, message).await?.await };
        stored.await.map_err(innermost).with_context(what)?;
        taken.answer(AckKind::Term).await.with_context(what)
    }

    /// Sends what was given back: a program that ends at once would take it along.
    pub async fn flush(&self) {
        if let Some(connected) = &self.connected {
            let _ = tokio::time::timeout(TIMEOUT, connected.client.flush()).await;
        }
    }

    /// Whether the next request needs no new connection.
    pub fn is_connected(&self) -> bool {
        let connected = self.connected.as_ref();
        connected.is_some_and(|it| it.client.connection_state() == State::Connected)
    }

    /// Connects anew before the next request.
    pub fn disconnect(&mut self) {
        self.connected = None;
    }

    async fn consumer(&mut self, hold: Duration) -> Result<&Consumer<pull::Config>> {
        let address = self.address.clone();
        let connected = self.connected().await?;
        let made = match connected.consumer.take() {
            Some(made) => made,
            None => {
                let config = pull::Config {
                    durable_name: Some(CONSUMER.into()),
                    description: Some("All indexers share this consumer".into()),
                    ack_wait: hold,
                    max_ack_pending: MAX_HELD,
                    ..pull::Config::default()
                };
                let made = connected.stream.create_consumer(config).await;
                made.map_err(innermost)
                    .with_context(|| format!("{address}: creating the consumer {CONSUMER}"))?
            }
        };
        Ok(connected.consumer.insert(made))
    }

    async fn connected(&mut self) -> Result<&mut Connected> {
        let is_connected = self.is_connected();
        let connected = match self.connected.take().filter(|_| is_connected) {
            Some(connected) => connected,
            None => connect(&self.address).await?,
        };
        Ok(self.connected.insert(connected))
    }
}

async fn connect(address: &Address) -> Result<Connected> {
    // Two implementations are linked in, and rustls does not choose by itself. It fails if one was chosen before.
    let _ = ring::default_provider().install_default();
    let options = ConnectOptions::new()
        .name("forebay-archive")
        .connection_timeout(TIMEOUT)
        // The caller tries again, and reports it.
        .max_reconnects(4);
    let options = match &address.login {
        None => options,
        Some(Login::Token(token)) => options.token(token.clone()),
        Some(Login::User(user, password)) => {
            options.user_and_password(user.clone(), password.clone())
        }
    };
    let client = options.connect(address.server.clone()).await;
    let client = client.map_err(innermost).with_context(|| {
        format!("{address}: connecting. Check the address and the credentials, and whether the server runs")
    })?;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(TIMEOUT);
    let config = Config {
        name: address.name.clone(),
        subjects: vec![address.subject()],
        description: Some("Segments in an archive of forebay that wait for their index".into()),
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        // A full stream refuses new announcements, and forgets no old ones.
        discard: DiscardPolicy::New,
        duplicate_window: DUPLICATE_WINDOW,
        ..Config::default()
    };
    let stream = stream(&context, config).await;
    let stream = stream.with_context(|| {
        format!("{address}: opening the stream. JetStream must be enabled (nats-server -js), and this user may need more permissions")
    })?;
    Ok(Connected {
        client,
        context,
        stream,
        consumer: None,
    })
}

/// Opens a stream, and creates it if there is none. One that somebody else has created must keep what it stores.
async fn stream(context: &Context, config: Config) -> Result<Stream> {
    let stream = match context.get_stream(&config.name).await {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(cause)
                if cause.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                // Another program may be creating it, too: that is no error if it is the same stream.
                let created = context.create_stream(config.clone()).await;
                created.map_err(innermost)?
            }
            _ => return Err(innermost(error)),
        },
    };
    let found = &stream.cached_info().config;
    let name = &config.name;
    if found.storage != StorageType::File {
        bail!(
            "the stream {name} keeps its messages in memory, and they would be lost with the server. Create it with storage `file`"
        );
    }
    ensure!(
        found.max_age.is_zero() && found.retention != RetentionPolicy::Interest,
        "the stream {name} forgets messages (its age limit, or its retention by interest). Set max_age to 0 and retention to `workqueue`"
    );
    let is_limited = [
        found.max_bytes,
        found.max_messages,
        found.max_messages_per_subject,
    ]
    .iter()
    .any(|it| *it > 0);
    ensure!(
        !is_limited || found.discard == DiscardPolicy::New && found.max_messages_per_subject <= 0,
        "the stream {name} forgets its oldest messages when a limit is reached. Set discard to `new`, and no limit for a subject"
    );
    ensure!(
        config.subjects.iter().all(|it| found.subjects.contains(it)),
        "the stream {name} does not have the subject {}: correct it, or use another name",
        config.subjects.join(", ")
    );
    Ok(stream)
}

/// The innermost cause: each layer of the client repeats the causes below it.
fn innermost(error: impl std::error::Error) -> anyhow::Error {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    anyhow!("{text}")
}

/// A message that was taken and is to be answered.
#[derive(Debug)]
pub struct Taken {
    message: jetstream::Message,
    /// Its number in the stream.
    pub number: u64,
}

impl Taken {
    fn of(message: jetstream::Message) -> Result<Taken> {
        let info = message.info();
        let info = info.map_err(|error| anyhow!("a message of no stream: {error}"))?;
        let number = info.stream_sequence;
        Ok(Taken { message, number })
    }

    /// What the message says.
    pub fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    /// Confirms that the message is done with. The server does not deliver it again.
    ///
    /// # Errors
    /// The server failed; it may deliver the message again.
    pub async fn done(&self) -> Result<()> {
        self.answer(AckKind::Ack).await
    }

    /// Asks for more time.
    pub async fn working(&self) {
        let _ = self.message.ack_with(AckKind::Progress).await;
    }

    /// Gives it back: the server delivers it again after this time.
    pub async fn give_back(&self, after: Duration) {
        let _ = self.message.ack_with(AckKind::Nak(Some(after))).await;
    }

    async fn answer(&self, kind: AckKind) -> Result<()> {
        let answered = self.message.double_ack_with(kind).await;
        answered.map_err(|error| innermost(&*error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_server_stream_and_credentials_which_are_never_printed() {
        let address: Address = "nats://a%40b:p%3Aw@localhost:1/lab".parse().unwrap();
        assert_eq!(address.to_string(), "nats://localhost:1/lab");
        assert_eq!(format!("{address:?}"), "nats://localhost:1/lab");
        assert!(
            matches!(&address.login, Some(Login::User(user, password)) if user == "a@b" && password == "p:w")
        );
        let token: Address = "tls://t0ken@[::1]".parse().unwrap();
        assert_eq!(token.to_string(), "tls://[::1]:4222/forebay");
        assert!(matches!(&token.login, Some(Login::Token(token)) if token == "t0ken"));
        for wrong in [
            "localhost:4222",
            "nats:",
            "http://secret@a",
            "nats://secret@a/b.c",
            "nats://secret@a/b/c",
            "nats://secret@a/b?c=d",
        ] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(
                !format!("{error:#}").contains("secret"),
                "{wrong}: {error:#}"
            );
        }
    }
}
