/* Uses one handle at the same time in a loop, in another thread, and in a signal handler. Run with two libraries, the output is compared. */
#include <pcap/pcap.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { TIMES = 1000 };

static pcap_t *receiver, *sender;
static pthread_t reader;
static int packets, failures, failures_in_handler, failures_of_sends, texts, total;

static int has_failed(void) {
    struct pcap_stat stats;
    return pcap_stats(receiver, &stats) != 0 || stats.ps_drop != 0;
}

static void by_signal(int number) { (void)number; failures_in_handler += has_failed(); }

static int sent(pcap_t *handle, int kind) {
    u_char frame[60] = "\2\0\0\0\0\xee\2\0\0\0\0\1\x88\xb5";
    frame[14] = kind;
    return pcap_sendpacket(handle, frame, sizeof frame);
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user, (void)header;
    if (data[14] == 1 && ++packets == total) pcap_breakloop(receiver);
}

/* Beside a loop that has work all the time. */
static void *disturb(void *unused) {
    for (int time = 0; time < TIMES; time++) {
        failures_of_sends += sent(sender, 1) != 0;
        failures_of_sends += sent(receiver, 2) != 0;
        failures += has_failed();
        texts += pcap_geterr(receiver) != NULL;
        pthread_kill(reader, SIGUSR1);
        if (time % 16 == 0) usleep(1000);
    }
    return unused;
}

/* While it waits. */
static void *disturb_wait(void *unused) {
    usleep(50000);
    failures += has_failed();
    pthread_kill(reader, SIGUSR1);
    usleep(50000);
    struct bpf_program program;
    printf("compile %d\n", pcap_compile(receiver, &program, "ether[14] = 1", 1, 0));
    printf("setfilter %d\n", pcap_setfilter(receiver, &program));
    pcap_freecode(&program);
    failures_of_sends += sent(sender, 2) != 0;
    failures_of_sends += sent(sender, 1) != 0;
    return unused;
}

static void run(void *(*other)(void *), int expected) {
    pthread_t thread;
    total = expected;
    pthread_create(&thread, NULL, other, NULL);
    int returned = pcap_loop(receiver, -1, count, NULL);
    pthread_join(thread, NULL);
    printf("loop %d packets %d failures %d %d %d texts %d\n", returned, packets, failures, failures_in_handler, failures_of_sends, texts);
}

int main(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    sender = pcap_open_live("va", 96, 0, 10, errors);
    receiver = pcap_open_live("vb", 96, 0, 10, errors);
    if (!sender || !receiver) {
        printf("%s\n", errors);
        return 1;
    }
    reader = pthread_self();
    signal(SIGUSR1, by_signal);
    run(disturb, TIMES);
    run(disturb_wait, TIMES + 1);
    pcap_close(receiver);
    pcap_close(sender);
    return 0;
}
