/* What programs do that does no harm on libpcap, or should not. usage: careless FILE */
#include <pcap/pcap.h>
#include <pthread.h>
#include <string.h>

static char *name;

static void *looks_up(void *unused) {
    char errors[PCAP_ERRBUF_SIZE];
    name = pcap_lookupdev(errors);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    /* Adds 1 to A until it is 5. libpcap compiles such jumps for protochain. */
    struct bpf_insn loop[] = {
        BPF_STMT(BPF_LD | BPF_IMM, 0),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 5, 1, 0),
        BPF_STMT(BPF_JMP | BPF_JA, (unsigned)-3),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    printf("loop %u\n", bpf_filter(loop, (const u_char *)"", 1, 1));

    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 96);
    struct bpf_program unset = {.bf_len = 0xfffffff0, .bf_insns = loop};
    printf("unset length %d %d\n", pcap_setfilter(dead, &unset), bpf_validate(loop, 0x7fffffff));
    pcap_close(dead);

    char errors[PCAP_ERRBUF_SIZE];
    memset(errors, 0x55, sizeof errors);
    pcap_t *handle = pcap_open_offline(argv[1], errors);
    int is_kept = errors[1] == 0x55 && errors[255] == 0x55;
    if (handle) pcap_close(handle);
    pcap_open_offline("/nowhere", errors);
    printf("small buffer %d %d\n", is_kept, errors[strlen(errors) + 1] == 0x55);

    /* The name stays after the thread. */
    pthread_t thread;
    pthread_create(&thread, NULL, looks_up, NULL);
    pthread_join(thread, NULL);
    char *first = name;
    pthread_create(&thread, NULL, looks_up, NULL);
    pthread_join(thread, NULL);
    printf("name %d\n", first == name && strlen(first) > 0);
    return 0;
}
