//! The clients that scrape the metrics, and when each of them is expected again.
//!
//! The final counts are kept until every client that scrapes regularly has them. A client is an address and a `User-Agent`, so that
//! a `curl` on the same machine is not taken for the server. Two servers with the same address and the same version are one client.

use std::{
    collections::VecDeque,
    net::IpAddr,
    time::{Duration, Instant},
};

/// The time between two scrapes if there was only one: that of most configurations.
const USUAL_INTERVAL: Duration = Duration::from_secs(15);
/// How late a scrape may be.
const MARGIN: Duration = Duration::from_secs(1);
/// Scrapes of a client that are remembered. The longest time between two of them is its interval.
const REMEMBERED: usize = 5;
/// Clients that are remembered.
const MAX_CLIENTS: usize = 16;

/// What distinguishes clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: Option<IpAddr>,
    pub agent: Vec<u8>,
}

struct Scraper {
    peer: Peer,
    /// The latest scrapes, the newest first.
    times: VecDeque<Instant>,
    has_final: bool,
}

impl Scraper {
    fn due(&self) -> Option<Instant> {
        let times = self.times.iter();
        let gaps = times.clone().zip(times.skip(1));
        let longest = gaps.map(|(&newer, &older)| newer - older).max();
        let last = *self.times.front()?;
        Some(last + longest.unwrap_or(USUAL_INTERVAL) + MARGIN)
    }
}

/// The clients, the one that scraped last at the end.
#[derive(Default)]
pub struct Scrapers(VecDeque<Scraper>);

impl Scrapers {
    /// A client took a whole response with metrics. `is_final`: with the final counts.
    pub fn served(&mut self, peer: Peer, is_final: bool, now: Instant) {
        let known = self.0.iter().position(|scraper| scraper.peer == peer);
        let known = known.and_then(|at| self.0.remove(at));
        let mut scraper = known.unwrap_or(Scraper {
            peer,
            times: VecDeque::new(),
            has_final: false,
        });
        scraper.times.truncate(REMEMBERED - 1);
        scraper.times.push_front(now);
        scraper.has_final |= is_final;
        if self.0.len() == MAX_CLIENTS {
            self.0.pop_front();
        }
        self.0.push_back(scraper);
    }

    /// When every client without the final counts has scraped again; `None`: no client lacks them.
    pub fn due(&self) -> Option<Instant> {
        let lacking = self.0.iter().filter(|scraper| !scraper.has_final);
        lacking.filter_map(Scraper::due).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn peer(last: u8, agent: &str) -> Peer {
        Peer {
            address: Some([192, 0, 2, last].into()),
            agent: agent.into(),
        }
    }

    #[test]
    fn each_of_two_servers_gets_the_final_counts() {
        let start = Instant::now();
        let mut scrapers = Scrapers::default();
        assert_eq!(scrapers.due(), None);
        let (a, b) = (peer(1, "Prometheus/3"), peer(2, "Prometheus/3"));
        for round in 0..4 {
            scrapers.served(a.clone(), false, start + 15 * round * SECOND);
            scrapers.served(b.clone(), false, start + (15 * round + 3) * SECOND);
        }
        assert_eq!(scrapers.due(), Some(start + (48 + 16) * SECOND));
        scrapers.served(a, true, start + 60 * SECOND);
        assert_eq!(scrapers.due(), Some(start + (48 + 16) * SECOND));
        scrapers.served(b, true, start + 63 * SECOND);
        assert_eq!(scrapers.due(), None);
    }

    #[test]
    fn another_client_of_the_same_machine_neither_shortens_nor_ends_the_wait() {
        let start = Instant::now();
        let mut scrapers = Scrapers::default();
        let (server, curl) = (peer(1, "Prometheus/3"), peer(1, "curl/8"));
        for round in 0..3 {
            scrapers.served(server.clone(), false, start + 15 * round * SECOND);
        }
        scrapers.served(curl.clone(), false, start + 31 * SECOND);
        scrapers.served(curl.clone(), false, start + 32 * SECOND);
        scrapers.served(curl, true, start + 33 * SECOND);
        assert_eq!(scrapers.due(), Some(start + (30 + 16) * SECOND));
        // Nor does a single scrape between two regular ones, even if the client is the same.
        scrapers.served(server, false, start + 34 * SECOND);
        assert_eq!(scrapers.due(), Some(start + (34 + 16) * SECOND));
    }

    #[test]
    fn memory_for_clients_is_bounded() {
        let start = Instant::now();
        let mut scrapers = Scrapers::default();
        for client in 0..1000_u32 {
            let peer = peer(1, &client.to_string());
            (0..10).for_each(|_| scrapers.served(peer.clone(), false, start + client * SECOND));
        }
        assert_eq!(scrapers.0.len(), MAX_CLIENTS);
        assert!(scrapers.0.iter().all(|it| it.times.len() == REMEMBERED));
        assert_eq!(scrapers.due(), Some(start + 1000 * SECOND));
    }
}
