/* Ends a loop without traffic 10,000 times, from a signal handler and from another thread. usage: breaks DEVICE */
#include <pcap/pcap.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

enum { TIMES = 10000 };

static pcap_t *handle;
static pthread_t reader;
static sem_t next;

static void none(u_char *user, const struct pcap_pkthdr *header, const u_char *data) { (void)user, (void)header, (void)data; }

static void by_signal(int number) { (void)number; pcap_breakloop(handle); }

static void *breaker(void *unused) {
    for (int time = 0; time < TIMES; time++) {
        sem_wait(&next);
        if (time % 2) pthread_kill(reader, SIGUSR1);
        else pcap_breakloop(handle);
    }
    return unused;
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    handle = argc > 1 ? pcap_open_live(argv[1], 96, 0, 0, errors) : NULL;
    if (!handle) {
        printf("%s\n", errors);
        return 1;
    }
    reader = pthread_self();
    sem_init(&next, 0, 0);
    signal(SIGUSR1, by_signal);
    pthread_t thread;
    pthread_create(&thread, NULL, breaker, NULL);
    int broken = 0;
    for (int time = 0; time < TIMES; time++) {
        sem_post(&next);
        broken += pcap_loop(handle, -1, none, NULL) == PCAP_ERROR_BREAK;
    }
    pthread_join(thread, NULL);
    printf("broken %d\n", broken);
    pcap_close(handle);
    return 0;
}
