/* What Forebay's libpcap has beside the interface of <pcap/pcap.h>. */
#ifndef FOREBAY_PCAP_H
#define FOREBAY_PCAP_H

#include <pcap/pcap.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a count that is not known, as opposed to 0. */
#define FOREBAY_PCAP_UNKNOWN UINT64_MAX

/* The counts of a device since it was activated. */
struct forebay_pcap_stats64 {
    uint64_t received;          /* that reached the capture, those dropped included */
    uint64_t dropped;           /* of these, lost because a ring was full or was overwritten */
    uint64_t interface_dropped; /* lost by the interface before; not part of received */
    uint64_t left_out;          /* of received, of another link type than the handle's */
    uint64_t delivered;         /* handed to the program */
};

/* Stores the counts of a device. Returns 0, or an error as pcap_stats does. Programs that may run on another libpcap look it up
 * with dlsym(3). */
int forebay_pcap_stats64(pcap_t *handle, struct forebay_pcap_stats64 *stats);

#ifdef __cplusplus
}
#endif
#endif
