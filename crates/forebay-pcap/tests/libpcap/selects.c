/* Filters on `vb` that the kernel refuses, or that read what the program does not get.
 * libpcap rejects some of these packets: shortly after a filter was set, it also runs it over what the kernel has cut. */
#include <pcap/pcap.h>
#include <string.h>
#include <unistd.h>

static pcap_t *receiver, *sender;

static void emit(int number) {
    u_char frame[200] = "\2\0\0\0\0\xee\2\0\0\0\0\1\x88\xb5";
    frame[14] = number;
    frame[100] = number % 2;
    if (pcap_inject(sender, frame, sizeof frame) != sizeof frame) printf("not sent\n");
}

/* Sends frames, and prints which arrive, cut to 34 bytes: up to the last one, or until none arrives. */
static void exchange(int numbers) {
    struct pcap_pkthdr *header;
    const u_char *data;
    int number = 0;
    printf("received");
    for (int sent = 1; sent <= numbers; sent++) emit(sent);
    for (int looks = 0; number != numbers && looks < 100; looks++) {
        if (pcap_next_ex(receiver, &header, &data) == 1) {
            number = data[14];
            printf(header->caplen == 34 && header->len == 200 ? " %d" : " %d?", number);
        } else {
            usleep(5000);
        }
    }
    printf("\n");
}

static void set(const char *text) {
    struct bpf_program program;
    int compiled = pcap_compile(receiver, &program, text, 1, PCAP_NETMASK_UNKNOWN);
    printf("%s: %d ", text, compiled < 0 ? compiled : pcap_setfilter(receiver, &program));
    if (compiled == 0) pcap_freecode(&program);
}

static void set_program(const char *what, struct bpf_insn *instructions, unsigned count) {
    struct bpf_program program = {.bf_len = count, .bf_insns = instructions};
    printf("%s: %d ", what, pcap_setfilter(receiver, &program));
}

int main(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    static struct bpf_insn many[5000];
    sender = pcap_open_live("va", 96, 0, 20, errors);
    receiver = pcap_open_live("vb", 34, 0, 20, errors);
    if (!sender || !receiver) {
        printf("%s\n", errors);
        return 1;
    }
    pcap_setnonblock(receiver, 1, errors);
    exchange(2);
    set("udp");
    exchange(2);
    for (int at = 0; at < 5000; at++) many[at] = (struct bpf_insn)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 100);
    many[4999] = (struct bpf_insn)BPF_STMT(BPF_RET | BPF_K, 65535);
    set_program("more than the kernel takes", many, 5000);
    exchange(3);
    set("ether[100] = 1");
    exchange(5);
    struct bpf_insn mark[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0xfffff000 + 20),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 65535),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    set_program("the mark is 0", mark, 4);
    exchange(2);
    many[0].k = 0xfffff000 + 20;
    set_program("more than the kernel takes, with the mark", many, 5000);
    exchange(2);
    mark[1].k = 7;
    set_program("the mark is 7", mark, 4);
    exchange(2);
    set("");
    exchange(1);
    pcap_close(receiver);
    /* Here only the library filters. */
    receiver = pcap_open_live("any", 34, 0, 20, errors);
    mark[1].k = 0;
    set_program("any: the mark is 0", mark, 4);
    printf("\n");
    pcap_close(receiver);
    pcap_close(sender);
    return 0;
}
