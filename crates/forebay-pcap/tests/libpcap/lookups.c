/* Prints what the functions return that need no packets. Run with two libraries, the output is compared. usage: lookups ETHERS */
#include <netdb.h>
#include <pcap/pcap.h>
/* Needs the header above. */
#include <pcap/namedb.h>
#include <stdlib.h>
#include <string.h>

/* Exported, and in no header. */
extern struct { const char *name; u_short number; } eproto_db[];
extern char pcap_version[];

static const char *shown(const char *text) { return text ? text : "(null)"; }

int main(int argc, char **argv) {
    const char *names[] = {"http", "80", "domain", "ftp-data", "syslog", "nosuch", "65535", "tcp", "udp", "icmp", "ip", "arp", "rarp", "stp", "ipx", ""};
    for (unsigned at = 0; at < sizeof names / sizeof *names; at++) {
        const char *name = names[at];
        int port = -9, protocol = -9;
        printf("%s: %d", name, pcap_nametoport(name, &port, &protocol));
        printf(" %d %d proto %d eproto %d llc %d\n", port, protocol, pcap_nametoproto(name), pcap_nametoeproto(name), pcap_nametollc(name));
    }
    const char *ranges[] = {"20-21", "80", "http-https", "nosuch-1", "domain-domain"};
    for (unsigned at = 0; at < sizeof ranges / sizeof *ranges; at++) {
        int first = -9, last = -9, protocol = -9;
        printf("%s: %d", ranges[at], pcap_nametoportrange(ranges[at], &first, &last, &protocol));
        printf(" %d-%d %d\n", first, last, protocol);
    }
    const char *addresses[] = {"02:00:5e:10:00:ff", "2:0:5e:1:0:f", "02-00-5e-10-00-ff", "0200.5e10.00ff"};
    for (unsigned at = 0; at < sizeof addresses / sizeof *addresses; at++) {
        u_char *address = pcap_ether_aton(addresses[at]);
        for (int byte = 0; byte < 6; byte++) printf("%02x%c", address[byte], byte < 5 ? ':' : '\n');
        free(address);
    }
    FILE *ethers = fopen(argv[argc - 1], "r");
    struct pcap_etherent *entry;
    while ((entry = pcap_next_etherent(ethers))) printf("entry %s %02x..%02x\n", entry->name, entry->addr[0], entry->addr[5]);
    fclose(ethers);
    bpf_u_int32 **hosts = pcap_nametoaddr("127.0.0.1");
    printf("host %x %d\n", hosts && *hosts ? **hosts : 0, hosts && !hosts[1]);
    struct addrinfo *info = pcap_nametoaddrinfo("127.0.0.1");
    printf("info %d\n", info ? info->ai_family : -1);
    if (info) freeaddrinfo(info);
    printf("networks %x %x\n", pcap_nametonetaddr("loopback"), pcap_nametonetaddr("nosuch.invalid"));
    printf("station %d\n", pcap_ether_hostton("nosuch.invalid") != NULL);
    for (int at = 0; eproto_db[at].name; at++) printf("%s %x\n", eproto_db[at].name, eproto_db[at].number);
    printf("%s %.22s\n", pcap_version, pcap_lib_version());

    for (int number = -20; number < 400; number++) {
        printf("%d %s %s %s %s", number, shown(pcap_datalink_val_to_name(number)), shown(pcap_datalink_val_to_description(number)),
               shown(pcap_tstamp_type_val_to_name(number)), shown(pcap_tstamp_type_val_to_description(number)));
        printf(" %s", pcap_datalink_val_to_description_or_dlt(number));
        printf(" %s", pcap_statustostr(number));
        printf(" %s\n", pcap_strerror(number));
    }
    printf("%d %d %d %d\n", pcap_datalink_name_to_val("en10mb"), pcap_datalink_name_to_val("DLT_RAW"), pcap_datalink_name_to_val("nosuch"),
           pcap_tstamp_type_name_to_val("ADAPTER"));

    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 300);
    struct pcap_pkthdr *header;
    const u_char *data;
    printf("dead %d %d %d", pcap_datalink(dead), pcap_snapshot(dead), pcap_next_ex(dead, &header, &data));
    printf(" %s\n", pcap_geterr(dead));
    pcap_perror(dead, "dead");
    printf("monitor %d %d\n", pcap_can_set_rfmon(dead), pcap_set_rfmon(dead, 1));
    struct bpf_program program;
    printf("compile %d\n", pcap_compile(dead, &program, "ip and tcp port 80", 1, 0));
    for (int option = 1; option <= 3; option++) bpf_dump(&program, option);
    for (unsigned at = 0; at < program.bf_len; at++) printf("%s\n", bpf_image(&program.bf_insns[at], at));
    pcap_freecode(&program);
    printf("compile %d %d\n", pcap_compile(dead, &program, "tcp port nosuch port", 1, 0), pcap_compile_nopcap(0, 1, &program, "ip", 1, 0));
    pcap_close(dead);
    char errors[PCAP_ERRBUF_SIZE] = "";
    printf("%d %s\n", pcap_open_offline("/nosuch/file", errors) != NULL, errors);
    printf("%d %s\n", pcap_open_offline("/dev/null", errors) != NULL, errors);
    printf("%d %s\n", pcap_open_offline(argv[argc - 1], errors) != NULL, errors);
    printf("%d\n", pcap_init(PCAP_CHAR_ENC_UTF_8, errors));
    return 0;
}
