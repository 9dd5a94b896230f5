/* Null pointers and wrong orders of calls: prints what is returned, and must not crash. */
#include <pcap/pcap.h>

int main(void) {
    char errors[PCAP_ERRBUF_SIZE];
    struct pcap_stat stats;
    struct bpf_program program = {0};
    struct pcap_pkthdr *header;
    const u_char *data;
    int *list;
    pcap_close(NULL);
    pcap_breakloop(NULL);
    pcap_dump_close(NULL);
    pcap_dump(NULL, NULL, NULL);
    pcap_freecode(NULL);
    pcap_freecode(&program);
    pcap_freealldevs(NULL);
    printf("%d %d %d", pcap_loop(NULL, 1, NULL, NULL), pcap_stats(NULL, &stats), pcap_next_ex(NULL, &header, &data));
    printf(" %d %d %d", pcap_setfilter(NULL, &program), pcap_datalink(NULL), pcap_compile(NULL, &program, "ip", 1, 0));
    printf(" %d\n", pcap_offline_filter(NULL, NULL, NULL));
    printf("%d %d\n", pcap_open_offline(NULL, errors) != NULL, pcap_fopen_offline(NULL, errors) != NULL);

    pcap_t *handle = pcap_create(NULL, NULL);
    printf("%d %d", pcap_setfilter(handle, &program), pcap_inject(handle, "x", 1));
    printf(" %d %d", pcap_list_datalinks(handle, &list), pcap_dump_open(handle, "/nosuch/file") != NULL);
    printf(" %d\n", pcap_loop(handle, 1, NULL, NULL));
    pcap_close(handle);

    handle = pcap_open_dead(DLT_EN10MB, 100);
    printf("%d %d %d\n", pcap_setfilter(handle, NULL), pcap_inject(handle, NULL, 5), pcap_activate(handle));
    pcap_close(handle);
    return 0;
}
