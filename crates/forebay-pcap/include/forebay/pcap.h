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

/* The counts of a device since it was activated. Every packet received is in exactly one of the other counts:
 *
 *   received = delivered + waiting + filtered + left_out + kernel + rx_ring + fill_ring + peer + overrun
 *
 * except for packets that the library has not taken from the device yet. A program that only reads has taken all when its last call
 * returned no packet. Later versions may add counts at the end. */
struct forebay_pcap_stats64 {
    uint64_t size;              /* set by the program: sizeof(struct forebay_pcap_stats64); the library stores how much it has filled in */
    uint64_t received;          /* reached the capture; those that the kernel's filter rejects did not */
    uint64_t delivered;         /* handed to the program */
    uint64_t waiting;           /* in memory of the library, for the program's next calls */
    uint64_t filtered;          /* rejected by the library: by the filter, where the kernel does not apply it, or by the direction */
    uint64_t left_out;          /* of another link type than the handle's */
    uint64_t kernel;            /* lost: the ring of the kernel, or of the simulated card, was full */
    uint64_t rx_ring;           /* lost: the receive ring of an AF_XDP socket was full */
    uint64_t fill_ring;         /* lost: the fill ring of an AF_XDP socket had no memory */
    uint64_t peer;              /* lost: the peer of a veth interface that is read with AF_XDP found its ring full */
    uint64_t overrun;           /* lost: overwritten in the memory of a share before this handle had read them */
    uint64_t interface_dropped; /* lost before the capture, not part of received: by the interface, or by the capture that shares them */
    uint64_t outages;           /* how often the interface went down */
    uint64_t outage_ns;         /* for how long in all, in nanoseconds */
};

/* Stores the counts of a device. Returns 0, or an error as pcap_stats does; PCAP_ERROR also if size is too small for one count.
 * Programs that may run on another libpcap look it up with dlsym(3). */
int forebay_pcap_stats64(pcap_t *handle, struct forebay_pcap_stats64 *stats);

#ifdef __cplusplus
}
#endif
#endif
