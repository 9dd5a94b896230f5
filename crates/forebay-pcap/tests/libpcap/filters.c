/* Compiles the filters of standard input, one a line after the number of its link type, and prints each program. */
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *text;
        int link = strtol(line, &text, 10);
        text[strcspn(text, "\n")] = 0;
        pcap_t *handle = pcap_open_dead(link, 262144);
        struct bpf_program program;
        if (pcap_compile(handle, &program, text + 1, 1, PCAP_NETMASK_UNKNOWN)) {
            printf("error %s\n", pcap_geterr(handle));
        } else {
            printf("%u", program.bf_len);
            for (unsigned i = 0; i < program.bf_len; i++)
                printf(",%u %u %u %u", program.bf_insns[i].code, program.bf_insns[i].jt, program.bf_insns[i].jf, program.bf_insns[i].k);
            printf("\n");
            pcap_freecode(&program);
        }
        pcap_close(handle);
    }
    return 0;
}
