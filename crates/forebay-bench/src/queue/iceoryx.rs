//! iceoryx2's publish/subscribe service between processes. The receiver polls, or sleeps in iceoryx2's event service.
//!
//! Each end has its own node, as it would have in its own program. Subscribers' buffers do not overflow: a publisher that
//! finds one full waits. It yields the processor 10,000 times and sleeps from then on.
//!
//! Invariants: there is one receiver only, because a service delivers each message to every subscriber, where a queue
//! delivers it to one. All ends connect before the first message, because a publisher discards what finds no room while
//! its subscriber is not connected. No end closes before all are done.

use super::rivals::{Lends, Receives, Rival, Sends, Shape};
use anyhow::{Context, Result, bail};
use iceoryx2::{
    port::{
        listener::Listener, notifier::Notifier, publisher::Publisher, subscriber::Subscriber,
        update_connections::UpdateConnections,
    },
    prelude::{
        BackpressureStrategy, Config, LogLevel, Node, NodeBuilder, ServiceName, SignalHandlingMode,
        ipc, set_log_level,
    },
    sample_mut::SampleMut,
    sample_mut_uninit::SampleMutUninit,
    service::port_factory::{event, publish_subscribe},
};
use std::{
    hint,
    mem::MaybeUninit,
    process,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// How often a receiver looks for a message before it starts to yield the processor, as in `forebay::queue::shared`.
const LOOKS: u32 = 40;

/// How often it yields before it sleeps, as there.
const YIELDS: u32 = 16;

/// The two services of one name, open: messages, and events that wake a receiver.
struct Services {
    messages: publish_subscribe::PortFactory<ipc::Service, [u8], ()>,
    events: event::PortFactory<ipc::Service>,
    // Dropped last, because the services belong to it.
    _node: Node<ipc::Service>,
}

impl Services {
    fn open(name: &ServiceName, shape: &Shape) -> Result<Services> {
        let node = NodeBuilder::new()
            .config(&Config::default())
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .context("creating an iceoryx2 node")?;
        let nodes = shape.senders + shape.receivers + 1;
        let messages = node
            .service_builder(name)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .history_size(0)
            // Each publisher has its own buffer at the subscriber: together they hold as much as other queues.
            .subscriber_max_buffer_size((shape.slots() / shape.senders).max(1))
            .subscriber_max_borrowed_samples(1)
            .max_publishers(shape.senders)
            .max_subscribers(shape.receivers)
            .max_nodes(nodes)
            .open_or_create()
            .with_context(|| format!("opening the iceoryx2 service {name} for messages"))?;
        let events = node
            .service_builder(name)
            .event()
            .max_notifiers(shape.senders)
            .max_listeners(shape.receivers)
            .max_nodes(nodes)
            .open_or_create()
            .with_context(|| format!("opening the iceoryx2 service {name} for events"))?;
        Ok(Services {
            messages,
            events,
            _node: node,
        })
    }
}

/// The services as a queue. With `SLEEPS` a receiver that finds no message sleeps until it is notified, and senders
/// notify it after each message; without, it yields the processor until a message is there.
pub struct Iceoryx<const SLEEPS: bool> {
    name: ServiceName,
    shape: Shape,
    // iceoryx2 removes services that no node has open.
    _held: Mutex<Services>,
}

/// A publisher.
pub struct Sender {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    _services: Services,
}

/// A subscriber.
pub struct Receiver {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    _services: Services,
}

impl<const SLEEPS: bool> Rival for Iceoryx<SLEEPS> {
    type Sender<'a> = Sender;
    type Receiver<'a> = Receiver;

    fn new(shape: &Shape) -> Result<Self> {
        if shape.receivers > 1 {
            bail!("its publish/subscribe delivers each message to every receiver, not to one");
        }
        // Relaxed: a number that nobody else gets, and nothing more.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        set_log_level(LogLevel::Error);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("forebay-bench/{}/{number}", process::id());
        let name: ServiceName = name.as_str().try_into().context("naming a service")?;
        Ok(Iceoryx {
            _held: Mutex::new(Services::open(&name, shape)?),
            name,
            shape: *shape,
        })
    }

    fn sender(&self) -> Result<Sender> {
        let services = Services::open(&self.name, &self.shape)?;
        let publisher = services
            .messages
            .publisher_builder()
            .initial_max_slice_len(self.shape.len)
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .context("creating an iceoryx2 publisher")?;
        let notifier = SLEEPS.then(|| services.events.notifier_builder().create());
        Ok(Sender {
            publisher,
            notifier: notifier
                .transpose()
                .context("creating an iceoryx2 notifier")?,
            _services: services,
        })
    }

    fn receiver(&self) -> Result<Receiver> {
        let services = Services::open(&self.name, &self.shape)?;
        let subscriber = services
            .messages
            .subscriber_builder()
            .create()
            .context("creating an iceoryx2 subscriber")?;
        let listener = SLEEPS.then(|| services.events.listener_builder().create());
        Ok(Receiver {
            subscriber,
            listener: listener
                .transpose()
                .context("creating an iceoryx2 listener")?,
            _services: services,
        })
    }
}

impl Sends for Sender {
    fn connect(&mut self) {
        let connected = self.publisher.update_connections();
        connected.expect("the subscriber can be reached");
        if let Some(notifier) = &self.notifier {
            let connected = notifier.update_connections();
            connected.expect("the listener can be reached");
        }
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        let sample = self.loan(message.len()).write_from_slice(message);
        self.publish(sample);
    }
}

impl Lends for Sender {
    #[inline(always)]
    fn send_filled(&mut self, len: usize, byte: u8) {
        let sample = self.loan(len).write_from_fn(|_| byte);
        self.publish(sample);
    }
}

impl Sender {
    #[inline(always)]
    fn loan(&self, len: usize) -> SampleMutUninit<ipc::Service, [MaybeUninit<u8>], ()> {
        let sample = self.publisher.loan_slice_uninit(len);
        sample.expect("one slot more than the buffer holds")
    }

    #[inline(always)]
    fn publish(&self, sample: SampleMut<ipc::Service, [u8], ()>) {
        assert_eq!(sample.send(), Ok(1));
        if let Some(notifier) = &self.notifier {
            let listeners = notifier.notify();
            assert_eq!(listeners, Ok(1));
        }
    }
}

impl Receives for Receiver {
    fn connect(&mut self) {
        let connected = self.subscriber.update_connections();
        connected.expect("the publishers can be reached");
    }

    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        let mut looks = 0;
        loop {
            let sample = self.subscriber.receive();
            if let Some(sample) = sample.expect("publishers can be reached") {
                return see(sample.payload());
            }
            looks += 1;
            match &self.listener {
                _ if looks < LOOKS => hint::spin_loop(),
                // Nothing is missed: a notification that came since the last look lets the wait return at once.
                Some(listener) if looks >= LOOKS + YIELDS => {
                    let woken = listener.blocking_wait(|_| ());
                    woken.expect("the event service is open");
                }
                _ => thread::yield_now(),
            }
        }
    }
}
