/* Reads a device to its end, and prints what it got and what it missed. usage: reader DEVICE */
#include <pcap/pcap.h>

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "no device";
    pcap_t *handle = argc > 1 ? pcap_open_live(argv[1], 96, 0, 10, errors) : NULL;
    if (!handle) {
        printf("%s\n", errors);
        return 1;
    }
    fprintf(stderr, "listening on %s\n", argv[1]);
    unsigned long packets = 0;
    struct pcap_pkthdr *header;
    const u_char *data;
    int returned;
    while ((returned = pcap_next_ex(handle, &header, &data)) >= 0) packets += returned;
    struct pcap_stat stats = {0};
    pcap_stats(handle, &stats);
    printf("%lu packets captured\n%u packets received by filter\n%u packets dropped by kernel\n", packets, stats.ps_recv, stats.ps_drop);
    pcap_close(handle);
    return 0;
}
