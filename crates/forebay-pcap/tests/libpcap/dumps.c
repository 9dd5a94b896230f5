/* Writes a file in two parts, and reads it. usage: dumps FILE PRECISION [append] */
#include <pcap/pcap.h>
#include <stdlib.h>

enum { LINK = DLT_EN10MB, SNAPLEN = 2000 };

static pcap_t *dead;

static void dump(pcap_dumper_t *dumper, int number) {
    u_char data[100] = {number};
    struct pcap_pkthdr header = {.ts = {1000 + number, 999}, .caplen = 60 + number % 40, .len = 300};
    pcap_dump((u_char *)dumper, &header, data);
}

static void part(pcap_dumper_t *dumper, int begin) {
    if (!dumper) {
        printf("dumper: %s\n", pcap_geterr(dead));
        return;
    }
    for (int number = begin; number < begin + 4000; number++) dump(dumper, number);
    printf("flush %d place %ld file %d\n", pcap_dump_flush(dumper), pcap_dump_ftell(dumper), pcap_dump_file(dumper) != NULL);
    dump(dumper, begin + 4000);
    pcap_dump_close(dumper);
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    if (argc < 3) return 1;
    unsigned precision = atoi(argv[2]);
    dead = pcap_open_dead_with_tstamp_precision(LINK, SNAPLEN, precision);
    if (argc == 3) part(pcap_dump_open(dead, argv[1]), 0);
    part(pcap_dump_open_append(dead, argv[1]), 4001);
    /* Not with another description. */
    pcap_t *other = pcap_open_dead_with_tstamp_precision(DLT_RAW, SNAPLEN, precision);
    printf("append %d %s\n", pcap_dump_open_append(other, argv[1]) != NULL, pcap_geterr(other));
    pcap_close(other);

    pcap_t *handle = pcap_open_offline_with_tstamp_precision(argv[1], precision, errors);
    if (!handle) {
        printf("%s\n", errors);
        return 2;
    }
    struct pcap_pkthdr *header;
    const u_char *data;
    int packets = 0, returned;
    while ((returned = pcap_next_ex(handle, &header, &data)) == 1) {
        int is_whole = header->ts.tv_sec == 1000 + packets && header->ts.tv_usec == 999 && header->caplen == 60u + packets % 40 &&
                       header->len == 300 && data[0] == (u_char)packets;
        if (!is_whole) printf("packet %d\n", packets);
        packets++;
    }
    printf("packets %d end %d link %d snapshot %d\n", packets, returned, pcap_datalink(handle), pcap_snapshot(handle));
    pcap_close(handle);
    pcap_close(dead);
    return 0;
}
