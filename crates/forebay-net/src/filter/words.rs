//! The keywords and the named numbers of the language.

use crate::spelling::distance;

/// Alternative spellings of keywords.
const ALIASES: &str = "
    ether=link ppp=link slip=link fddi=link tr=link wlan=link es-is=esis is-is=isis length=len direction=dir
    address1=addr1 address2=addr2 address3=addr3 address4=addr4 ifname=on ruleset=rset rulenum=rnr
    subrulenum=srnr lsu=lssu
";

const KEYWORDS: &str = "
    dst src link arp rarp ip sctp tcp udp icmp igmp igrp pim vrrp carp radio ip6 icmp6 ah esp atalk aarp decnet
    lat sca moprc mopdl iso esis isis l1 l2 iih lsp snp csnp psnp clnp stp ipx netbeui host net mask port
    portrange proto protochain gateway type subtype dir addr1 addr2 addr3 addr4 ra ta less greater byte
    broadcast multicast and or not len inbound outbound ifindex vlan mpls pppoed pppoes geneve vxlan lane llc metac
    bcc oam oamf4 oamf4ec oamf4sc sc ilmic vpi vci connectmsg metaconnect on rset rnr srnr reason action fisu
    lssu msu hfisu hlssu hmsu sio opc dpc sls hsio hopc hdpc hsls
";

/// Named numbers: offsets of fields, types of ICMP and ICMPv6, flags of TCP.
const CONSTANTS: &str = "
    icmptype=0 icmpcode=1 icmp-echoreply=0 icmp-unreach=3 icmp-sourcequench=4 icmp-redirect=5 icmp-echo=8
    icmp-routeradvert=9 icmp-routersolicit=10 icmp-timxceed=11 icmp-paramprob=12 icmp-tstamp=13
    icmp-tstampreply=14 icmp-ireq=15 icmp-ireqreply=16 icmp-maskreq=17 icmp-maskreply=18 icmp6type=0
    icmp6code=1 icmp6-destinationunreach=1 icmp6-packettoobig=2 icmp6-timeexceeded=3 icmp6-parameterproblem=4
    icmp6-echo=128 icmp6-echoreply=129 icmp6-multicastlistenerquery=130 icmp6-multicastlistenerreportv1=131
    icmp6-multicastlistenerdone=132 icmp6-routersolicit=133 icmp6-routeradvert=134 icmp6-neighborsolicit=135
    icmp6-neighboradvert=136 icmp6-redirect=137 icmp6-routerrenum=138 icmp6-nodeinformationquery=139
    icmp6-nodeinformationresponse=140 icmp6-ineighbordiscoverysolicit=141 icmp6-ineighbordiscoveryadvert=142
    icmp6-multicastlistenerreportv2=143 icmp6-homeagentdiscoveryrequest=144 icmp6-homeagentdiscoveryreply=145
    icmp6-mobileprefixsolicit=146 icmp6-mobileprefixadvert=147 icmp6-certpathsolicit=148
    icmp6-certpathadvert=149 icmp6-multicastrouteradvert=151 icmp6-multicastroutersolicit=152
    icmp6-multicastrouterterm=153 tcpflags=13 tcp-fin=1 tcp-syn=2 tcp-rst=4 tcp-push=8 tcp-ack=16 tcp-urg=32
    tcp-ece=64 tcp-cwr=128
";

/// The two sides of each entry.
fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let entries = table.split_ascii_whitespace();
    entries.filter_map(|entry| entry.split_once('='))
}

pub(super) fn keyword(word: &str) -> Option<&'static str> {
    let alias = pairs(ALIASES).find(|(alias, _)| *alias == word);
    let canonical = alias.map_or(word, |(_, canonical)| canonical);
    KEYWORDS
        .split_ascii_whitespace()
        .find(|keyword| *keyword == canonical)
}

pub(super) fn constant(word: &str) -> Option<u32> {
    let (_, value) = pairs(CONSTANTS).find(|(name, _)| *name == word)?;
    value.parse().ok()
}

/// The keyword or constant that was most likely meant by `word`, if one is similar.
pub(super) fn nearest(word: &str) -> Option<&'static str> {
    if !(3..=32).contains(&word.len()) {
        return None;
    }
    let others = pairs(ALIASES).chain(pairs(CONSTANTS));
    let others = others.map(|(name, _)| name);
    let all = KEYWORDS.split_ascii_whitespace().chain(others);
    let near = all.filter(|candidate| candidate.len() > 2);
    let near = near.map(|candidate| (distance(word, candidate), candidate));
    // Among equally similar ones, prefer one that `word` is a prefix of: unfinished words are common.
    let key = |(distance, candidate): &(usize, &str)| (*distance, !candidate.starts_with(word));
    let (distance, candidate) = near.min_by_key(key)?;
    (distance <= 1 + word.len() / 6).then_some(candidate)
}
