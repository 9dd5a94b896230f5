/* Prints what libpcap's interface does with a file: run with two libraries, the output is compared.
 * usage: calls FILE PRECISION FILTER OUTPUT */
#include <pcap/pcap.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static pcap_t *handle;
static int packets;

static unsigned sum(const u_char *data, unsigned len) {
    unsigned sum = 7;
    while (len--) sum = sum * 31 + *data++;
    return sum;
}

static void show(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    packets++;
    printf("%s %ld.%ld %u/%u %08x\n", (char *)user, header->ts.tv_sec, header->ts.tv_usec, header->caplen, header->len,
           sum(data, header->caplen));
}

static void stop(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    show(user, header, data);
    if (packets == 2) pcap_breakloop(handle);
}

/* A packet within a packet. */
static void nested(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    struct pcap_pkthdr *inner;
    show(user, header, data);
    if (pcap_next_ex(handle, &inner, &data) == 1) printf("  in %u.%u: %u\n", header->caplen, header->len, inner->caplen);
}

static void by_signal(int number) { (void)number; pcap_breakloop(handle); }

static void raising(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    show(user, header, data);
    raise(SIGUSR1);
}

static void open_file(const char *path, unsigned precision) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    if (handle) pcap_close(handle);
    packets = 0;
    FILE *stream = fopen(path, "r");
    handle = stream ? pcap_fopen_offline_with_tstamp_precision(stream, precision, errors)
                    : pcap_open_offline_with_tstamp_precision(path, precision, errors);
    if (!handle) {
        printf("not opened: %s\n", errors);
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) return 1;
    const char *path = argv[1];
    unsigned precision = atoi(argv[2]);
    struct pcap_pkthdr *header, copied;
    const u_char *data;
    int returned;

    open_file(path, precision);
    printf("monitor %d %d timeout %d\n", pcap_can_set_rfmon(handle), pcap_set_rfmon(handle, 1), pcap_get_required_select_timeout(handle) != NULL);
    printf("link %d ext %d snaplen %d version %d.%d swapped %d precision %d\n", pcap_datalink(handle), pcap_datalink_ext(handle),
           pcap_snapshot(handle), pcap_major_version(handle), pcap_minor_version(handle), pcap_is_swapped(handle),
           pcap_get_tstamp_precision(handle));
    int *links, count = pcap_list_datalinks(handle, &links);
    printf("links %d first %d set %d\n", count, links[0], pcap_set_datalink(handle, links[0]));
    pcap_free_datalinks(links);
    printf("nonblock %d selectable %d fileno %d\n", pcap_getnonblock(handle, NULL),
           pcap_get_selectable_fd(handle) == fileno(pcap_file(handle)), pcap_fileno(handle));

    while ((returned = pcap_next_ex(handle, &header, &data)) == 1) {
        show((u_char *)"next_ex", header, data);
        printf("  at %ld\n", ftell(pcap_file(handle)));
    }
    printf("next_ex %d %s\n", returned, returned == -1 ? pcap_geterr(handle) : "");
    if (returned == -1) return 3;
    struct pcap_stat stats;
    printf("stats %d %s\n", pcap_stats(handle, &stats), pcap_geterr(handle));
    printf("inject %d\n", pcap_inject(handle, "x", 1));

    open_file(path, precision);
    data = pcap_next(handle, &copied);
    if (data) show((u_char *)"next", &copied, data);
    printf("dispatch %d\n", pcap_dispatch(handle, 2, show, (u_char *)"dispatch"));
    printf("dispatch %d\n", pcap_dispatch(handle, -1, show, (u_char *)"dispatch"));
    printf("dispatch %d\n", pcap_dispatch(handle, -1, show, (u_char *)"dispatch"));

    open_file(path, precision);
    printf("loop %d\n", pcap_loop(handle, 3, show, (u_char *)"loop"));
    printf("loop %d\n", pcap_loop(handle, 0, show, (u_char *)"loop"));

    open_file(path, precision);
    printf("nested %d\n", pcap_loop(handle, -1, nested, (u_char *)"nested"));

    open_file(path, precision);
    pcap_breakloop(handle);
    printf("broken loop %d\n", pcap_loop(handle, -1, stop, (u_char *)"stop"));
    printf("broken loop %d\n", pcap_loop(handle, -1, stop, (u_char *)"stop"));
    printf("broken loop %d\n", pcap_loop(handle, -1, stop, (u_char *)"stop"));

    signal(SIGUSR1, by_signal);
    open_file(path, precision);
    printf("signalled loop %d\n", pcap_loop(handle, -1, raising, (u_char *)"raising"));
    printf("signalled next %d\n", pcap_next_ex(handle, &header, &data));

    open_file(path, precision);
    struct bpf_program program;
    /* Of frame relay and Juniper's types, Forebay's filters only know lengths and bytes. */
    int link = pcap_datalink(handle), is_known = link != 107 && link != 137;
    returned = pcap_compile(handle, &program, is_known ? argv[3] : "greater 60", 1, PCAP_NETMASK_UNKNOWN);
    printf("compile %d\n", returned);
    if (returned == 0) {
        printf("setfilter %d\n", pcap_setfilter(handle, &program));
        printf("loop %d\n", pcap_loop(handle, -1, show, (u_char *)"filtered"));
        open_file(path, precision);
        int matching = 0;
        while (pcap_next_ex(handle, &header, &data) == 1) {
            int kept = pcap_offline_filter(&program, header, data) != 0;
            if (kept != (bpf_filter(program.bf_insns, data, header->len, header->caplen) != 0)) printf("different\n");
            matching += kept;
        }
        printf("matching %d valid %d\n", matching, bpf_validate(program.bf_insns, program.bf_len));
        pcap_freecode(&program);
        printf("freed %u %d\n", program.bf_len, program.bf_insns == NULL);
        pcap_freecode(&program);
    }

    open_file(path, precision);
    pcap_dumper_t *dumper = pcap_dump_open(handle, argv[4]);
    if (!dumper) {
        printf("dump: %s\n", pcap_geterr(handle));
        return 4;
    }
    pcap_loop(handle, 2, pcap_dump, (u_char *)dumper);
    printf("flush %d tell %ld %lld\n", pcap_dump_flush(dumper), pcap_dump_ftell(dumper), (long long)pcap_dump_ftell64(dumper));
    pcap_dump_close(dumper);
    /* Debian's library does not recognize its own files with such an extension. */
    if (pcap_datalink_ext(handle)) return 0;
    dumper = pcap_dump_open_append(handle, argv[4]);
    printf("append %d\n", dumper != NULL);
    if (dumper) {
        pcap_loop(handle, -1, pcap_dump, (u_char *)dumper);
        pcap_dump_close(dumper);
    } else {
        printf("%s\n", pcap_geterr(handle));
    }
    pcap_close(handle);
    return 0;
}
